// libcuda.so.1: the driver's functions that package cuda calls.
#include "emulator.h"

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <regex>
#include <set>
#include <unistd.h>

static std::recursive_mutex mutex;
guard::guard() { mutex.lock(); }
guard::~guard() { mutex.unlock(); }

void emulator_complain(const std::string &message) { fprintf(stderr, "cuda emulator: %s\n", message.c_str()); }
bool emulator_holds(const void *p, size_t bytes) { return device_holds(p, bytes); }

long long setting(const char *name, long long otherwise) {
    const char *value = getenv(name);
    return value != nullptr && *value != 0 ? atoll(value) : otherwise;
}

struct CUstream_st {
    std::deque<std::function<CUresult()>> queue;
    long long queued = 0, done = 0;
};
struct CUevent_st {
    CUstream stream = nullptr; // of the last Record
    long long after = 0;       // so much of the stream's work
};
struct CUfunc_st {
    const kernel *k;
};
struct CUmod_st {
    std::string text;
    std::deque<CUfunc_st> functions;
};

// The one primary context. Devices share it: a test uses one at a time.
static struct CUctx_st {
    int users = 0;
    CUresult failure = CUDA_SUCCESS;
    long long launches = 0;
    std::set<CUstream> streams;
    std::set<CUmodule> modules;
} primary;
static thread_local CUcontext current;

// What each function that needs a context begins with.
#define BEGIN(condition)                                                                                               \
    guard locked;                                                                                                      \
    if (current == nullptr)                                                                                            \
        return CUDA_ERROR_INVALID_CONTEXT;                                                                             \
    if (primary.users == 0)                                                                                            \
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;                                                                        \
    if (primary.failure != CUDA_SUCCESS)                                                                               \
        return primary.failure;                                                                                        \
    if (!(condition))                                                                                                  \
        return CUDA_ERROR_INVALID_VALUE;

// Does the stream's work until so much of it is done.
static CUresult drain(CUstream stream, long long until) {
    while (stream->done < until && primary.failure == CUDA_SUCCESS) {
        auto work = std::move(stream->queue.front());
        stream->queue.pop_front();
        stream->done++;
        primary.failure = work();
    }
    return primary.failure;
}

static CUresult drain(CUstream stream) { return drain(stream, stream->queued); }

static CUresult drain_all() {
    for (CUstream stream : primary.streams)
        drain(stream);
    return primary.failure;
}

CUresult emulator_enqueue(CUstream stream, std::function<CUresult()> work) {
    BEGIN(primary.streams.count(stream) != 0)
    stream->queue.push_back(std::move(work));
    stream->queued++;
    return stream->queue.size() > 10000 ? drain(stream) : CUDA_SUCCESS;
}

// --- the driver and its devices

EXPORT CUresult cuInit(unsigned) { return static_cast<CUresult>(setting("CUDA_EMULATOR_INIT", 0)); }

EXPORT CUresult cuDriverGetVersion(int *version) {
    *version = static_cast<int>(setting("CUDA_EMULATOR_DRIVER", 12090));
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int *count) {
    *count = static_cast<int>(setting("CUDA_EMULATOR_DEVICES", 1));
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int index) {
    *device = index;
    return index >= 0 && index < setting("CUDA_EMULATOR_DEVICES", 1) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

EXPORT CUresult cuDeviceGetName(char *name, int size, CUdevice) {
    snprintf(name, size, "emulated GPU");
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceTotalMem(size_t *bytes, CUdevice) {
    *bytes = device_total();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice) {
    const char *capability = getenv("CUDA_EMULATOR_CAPABILITY");
    int major = 9, minor = 0;
    if (capability != nullptr)
        sscanf(capability, "%d.%d", &major, &minor);
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *value = major; break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *value = minor; break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *value = 2; break;
    default: return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

// --- contexts, streams, events

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice) {
    guard locked;
    primary.users++;
    *context = &primary;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice) {
    guard locked;
    if (primary.users == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (--primary.users > 0)
        return CUDA_SUCCESS;
    device_free_all(); // and a context that was lost is as new
    for (CUstream s : primary.streams)
        delete s;
    for (CUmodule m : primary.modules)
        delete m;
    primary = CUctx_st();
    return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
    current = context;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned) {
    BEGIN(true)
    primary.streams.insert(*stream = new CUstream_st);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamDestroy(CUstream stream) {
    BEGIN(primary.streams.erase(stream) != 0)
    CUresult result = drain(stream);
    delete stream;
    return result;
}

EXPORT CUresult cuStreamSynchronize(CUstream stream) {
    BEGIN(primary.streams.count(stream) != 0)
    return drain(stream);
}

EXPORT CUresult cuEventCreate(CUevent *event, unsigned) {
    BEGIN(true)
    *event = new CUevent_st;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventDestroy(CUevent event) {
    delete event;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) {
    BEGIN(primary.streams.count(stream) != 0)
    event->stream = stream;
    event->after = stream->queued;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuEventSynchronize(CUevent event) {
    BEGIN(true)
    return event->stream == nullptr ? CUDA_SUCCESS : drain(event->stream, event->after);
}

// --- memory

EXPORT CUresult cuMemAlloc(CUdeviceptr *p, size_t bytes) {
    BEGIN(true)
    return device_alloc(p, bytes);
}

EXPORT CUresult cuMemFree(CUdeviceptr p) {
    BEGIN(true)
    CUresult result = drain_all();
    return result != CUDA_SUCCESS ? result : device_free(p);
}

EXPORT CUresult cuMemGetInfo(size_t *free, size_t *total) {
    BEGIN(true)
    *total = device_total();
    *free = *total > device_bytes() ? *total - device_bytes() : 0;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemHostAlloc(void **p, size_t bytes, unsigned) {
    BEGIN(true)
    *p = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    return *p != nullptr ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMemFreeHost(void *p) {
    free(p);
    return CUDA_SUCCESS;
}

static bool check(const char *call, const void *p, size_t bytes) {
    if (device_holds(p, bytes))
        return true;
    emulator_complain(std::string(call) + " of " + std::to_string(bytes) + " bytes: " + describe(p));
    return false;
}

static CUresult copy(CUstream stream, void *to, const void *from, size_t bytes) {
    return emulator_enqueue(stream, [=] {
        memcpy(to, from, bytes);
        return CUDA_SUCCESS;
    });
}

static void *at(CUdeviceptr p) { return reinterpret_cast<void *>(p); }

EXPORT CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
    BEGIN(check("cuMemcpyHtoDAsync", at(to), bytes))
    return copy(stream, at(to), from, bytes);
}

EXPORT CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
    BEGIN(check("cuMemcpyDtoHAsync", at(from), bytes))
    return copy(stream, to, at(from), bytes);
}

// --- modules and launches

// The number of parameters of an entry point that the PTX declares, or -1.
static int parameters(const std::string &ptx, const std::string &name) {
    std::smatch found;
    if (!std::regex_search(ptx, found, std::regex("\\.visible \\.entry " + name + "\\(([^)]*)\\)")))
        return -1;
    const std::string list = found[1];
    const std::regex one("\\.param ");
    return static_cast<int>(std::distance(std::sregex_iterator(list.begin(), list.end(), one), std::sregex_iterator()));
}

EXPORT CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned n, CUjit_option *options, void **values) {
    BEGIN(true)
    std::string text = static_cast<const char *>(image), refused;
    if (const char *message = getenv("CUDA_EMULATOR_REFUSE_PTX"))
        refused = message;
    else if (!std::regex_search(text, std::regex("(^|\n)\\.version \\d+\\.\\d+\n\\.target sm_\\d+")))
        refused = "this is no PTX";
    if (!refused.empty()) {
        for (unsigned i = 0; i + 1 < n; i++)
            if (options[i] == CU_JIT_ERROR_LOG_BUFFER)
                snprintf(static_cast<char *>(values[i]), reinterpret_cast<size_t>(values[i + 1]), "%s", refused.c_str());
        return CUDA_ERROR_INVALID_PTX;
    }
    primary.modules.insert(*module = new CUmod_st{text, {}});
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleUnload(CUmodule module) {
    BEGIN(primary.modules.erase(module) != 0)
    delete module;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
    BEGIN(primary.modules.count(module) != 0)
    const kernel *k = find_kernel(name);
    const int declared = parameters(module->text, name);
    if (k == nullptr || declared != k->parameters) {
        emulator_complain(std::string("kernel ") + name + " differs in PTX and source: run make ptx");
        return CUDA_ERROR_NOT_FOUND;
    }
    module->functions.push_back({k});
    *function = &module->functions.back();
    return CUDA_SUCCESS;
}

static bool fits(const launch &l) {
    const unsigned long long threads = 1ULL * l.block[0] * l.block[1] * l.block[2];
    return threads >= 1 && threads <= 1024 && l.block[2] <= 64 && l.grid[0] >= 1 && l.grid[1] >= 1 && l.grid[2] >= 1 &&
           l.grid[0] <= 0x7fffffff && l.grid[1] <= 65535 && l.grid[2] <= 65535;
}

EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                               unsigned shared, CUstream stream, void **values, void **) {
    launch l = {f->k, {gx, gy, gz}, {bx, by, bz}, {}};
    BEGIN(fits(l) && shared == 0)
    for (int i = 0; i < l.k->parameters; i++)
        memcpy(&l.values[i], values[i], sizeof l.values[i]);
    const bool lost = primary.launches++ >= setting("CUDA_EMULATOR_LOST_AFTER", 1LL << 60);
    return emulator_enqueue(stream, [=]() mutable { return lost ? CUDA_ERROR_LAUNCH_FAILED : run_launch(l); });
}
