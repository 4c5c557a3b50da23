// What the emulator's parts know of each other.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstring>
#include <functional>
#include <string>

#define EXPORT extern "C" __attribute__((visibility("default")))

// --- kernels.cpp

// A compiled kernel: run calls it for the thread that is current, with the parameters' addresses.
struct kernel {
    const char *name;
    int parameters;
    bool pointer[32]; // which of the parameters are addresses
    void (*run)(void **parameters);
};

// The kernel of that name, or nullptr.
const kernel *find_kernel(const std::string &name);
void add_kernel(const kernel &k);

struct launch {
    const kernel *k;
    unsigned grid[3], block[3];
    unsigned long long values[32];
};

// Runs all threads. Returns CUDA_ERROR_ILLEGAL_ADDRESS for one that reached outside device memory.
CUresult run_launch(launch &l);

// --- memory.cpp

CUresult device_alloc(CUdeviceptr *p, size_t bytes);
CUresult device_free(CUdeviceptr p);
void device_free_all();
size_t device_bytes();
size_t device_total();

// Whether the bytes from p on are of one buffer.
bool device_holds(const void *p, size_t bytes);
// What is to say of a stray address.
std::string describe(const void *p);

// --- driver.cpp

// The lock that all functions hold: the emulator does one thing at a time.
struct guard {
    guard();
    ~guard();
};

// Queues work of a stream; what it returns is reported by whoever waits for it, and by all calls from then on.
EXPORT CUresult emulator_enqueue(CUstream stream, std::function<CUresult()> work);
EXPORT bool emulator_holds(const void *p, size_t bytes);
// Prints a line on stderr.
EXPORT void emulator_complain(const std::string &message);

// An environment variable's number.
long long setting(const char *name, long long otherwise);
