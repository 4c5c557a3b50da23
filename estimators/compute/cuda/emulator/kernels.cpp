// Runs a kernel's blocks and threads on the processor.
#include "device.h"
#include "emulator.h"

#include <csetjmp>
#include <csignal>
#include <map>
#include <pthread.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <vector>

emulator_dim3 threadIdx, blockIdx, blockDim, gridDim;

// The bounds of the section emulator_shared, from the linker. Weak: there may be no shared memory at all.
extern "C" char __start_emulator_shared[] __attribute__((weak)), __stop_emulator_shared[] __attribute__((weak));

static std::map<std::string, kernel> &kernels() {
    static std::map<std::string, kernel> all;
    return all;
}

void add_kernel(const kernel &k) { kernels().emplace(k.name, k); }

const kernel *find_kernel(const std::string &name) {
    auto found = kernels().find(name);
    return found == kernels().end() ? nullptr : &found->second;
}

// A fiber runs threads of the block, one after the other, until one of them waits at a barrier; then another fiber
// goes on with the next thread. Without barriers one fiber is enough.
//
// It is entered by setcontext once, from then on by _longjmp, which makes no system call.
struct fiber {
    ucontext_t entry;
    jmp_buf place;
    emulator_dim3 thread;
    bool entered = false;
};

static struct {
    std::vector<fiber *> idle, waiting;
    fiber *running;
    jmp_buf scheduler;
    unsigned next, threads; // of the block: the first that has not started, and their number
    const kernel *k;
    void **parameters;
} block;

static void to_scheduler() {
    if (_setjmp(block.running->place) == 0)
        _longjmp(block.scheduler, 1);
}

void __syncthreads() {
    block.running->thread = threadIdx;
    block.waiting.push_back(block.running);
    to_scheduler();
    threadIdx = block.running->thread;
}

static void run_threads() {
    for (;;) {
        while (block.next < block.threads) {
            unsigned t = block.next++;
            threadIdx = {t % blockDim.x, t / blockDim.x % blockDim.y, t / blockDim.x / blockDim.y};
            block.k->run(block.parameters);
        }
        block.idle.push_back(block.running);
        to_scheduler();
    }
}

static fiber *new_fiber() {
    const size_t stack = 256 << 10;
    fiber *f = new fiber;
    getcontext(&f->entry);
    f->entry.uc_stack.ss_sp = mmap(nullptr, stack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    f->entry.uc_stack.ss_size = stack;
    f->entry.uc_link = nullptr;
    makecontext(&f->entry, run_threads, 0);
    return f;
}

// Runs a fiber until it waits or has nothing to do.
static __attribute__((noinline)) void resume(fiber *f) {
    block.running = f;
    if (_setjmp(block.scheduler) != 0)
        return;
    if (f->entered)
        _longjmp(f->place, 1);
    f->entered = true;
    setcontext(&f->entry);
}

static void run_block() {
    if (__start_emulator_shared != nullptr)
        memset(__start_emulator_shared, 0xff, __stop_emulator_shared - __start_emulator_shared);
    block.next = 0;
    while (block.next < block.threads) {
        if (block.idle.empty())
            block.idle.push_back(new_fiber());
        fiber *f = block.idle.back();
        block.idle.pop_back();
        resume(f);
    }
    while (!block.waiting.empty()) { // all threads wait or are done: the barrier opens
        std::vector<fiber *> through;
        through.swap(block.waiting);
        for (fiber *f : through)
            resume(f);
    }
}

// A stray access ends the launch.
static sigjmp_buf stray;
static pthread_t launching;
static void *stray_address;
static struct sigaction before;

static void on_fault(int number, siginfo_t *info, void *context) {
    if (pthread_equal(pthread_self(), launching)) {
        stray_address = info->si_addr;
        siglongjmp(stray, 1);
    }
    before.sa_sigaction(number, info, context); // of another thread: Go's own handler
}

static void run_blocks(const launch &l) {
    for (unsigned z = 0; z < l.grid[2]; z++)
        for (unsigned y = 0; y < l.grid[1]; y++)
            for (unsigned x = 0; x < l.grid[0]; x++) {
                blockIdx = {x, y, z};
                run_block();
            }
}

CUresult run_launch(launch &l) {
    void *parameters[32];
    for (int i = 0; i < l.k->parameters; i++) {
        parameters[i] = &l.values[i];
        if (l.k->pointer[i] && l.values[i] != 0 && !device_holds(reinterpret_cast<void *>(l.values[i]), 1)) {
            emulator_complain(std::string("argument ") + std::to_string(i) + " of kernel " + l.k->name + ": " +
                              describe(reinterpret_cast<void *>(l.values[i])));
            return CUDA_ERROR_ILLEGAL_ADDRESS;
        }
    }
    gridDim = {l.grid[0], l.grid[1], l.grid[2]};
    blockDim = {l.block[0], l.block[1], l.block[2]};
    block.threads = blockDim.x * blockDim.y * blockDim.z;
    block.k = l.k;
    block.parameters = parameters;

    struct sigaction now = {};
    now.sa_sigaction = on_fault;
    now.sa_flags = SA_SIGINFO | SA_ONSTACK;
    launching = pthread_self();
    sigaction(SIGSEGV, &now, &before);
    CUresult result = CUDA_SUCCESS;
    if (sigsetjmp(stray, 1) == 0) {
        run_blocks(l);
    } else {
        emulator_complain(std::string("kernel ") + l.k->name + ": " + describe(stray_address));
        block.idle.clear(); // the fibers are in the middle of something: make new ones
        block.waiting.clear();
        result = CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    sigaction(SIGSEGV, &before, nullptr);
    return result;
}
