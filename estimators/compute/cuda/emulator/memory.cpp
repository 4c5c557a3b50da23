// The device's memory: each buffer ends where a page begins that may not be touched.
#include "emulator.h"

#include <map>
#include <sstream>
#include <sys/mman.h>
#include <unistd.h>

struct allocation {
    size_t bytes;
    char *pages; // what was mapped, the forbidden page included
    size_t mapped;
};

static std::map<const char *, allocation> allocations; // by first byte
static size_t in_use;

size_t device_total() { return setting("CUDA_EMULATOR_MEMORY", 8LL << 30); }
size_t device_bytes() { return in_use; }

CUresult device_alloc(CUdeviceptr *p, size_t bytes) {
    if (bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes > device_total() || in_use > device_total() - bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    const size_t page = sysconf(_SC_PAGESIZE), aligned = (bytes + 7) / 8 * 8, body = (aligned + page - 1) / page * page;
    char *pages = static_cast<char *>(mmap(nullptr, body + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (pages == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    mprotect(pages + body, page, PROT_NONE);
    char *first = pages + body - aligned;
    memset(pages, 0xff, body); // NaN
    allocations[first] = {bytes, pages, body + page};
    in_use += bytes;
    *p = reinterpret_cast<CUdeviceptr>(first);
    return CUDA_SUCCESS;
}

CUresult device_free(CUdeviceptr p) {
    auto found = allocations.find(reinterpret_cast<char *>(p));
    if (found == allocations.end()) {
        emulator_complain("cuMemFree: " + describe(reinterpret_cast<void *>(p)));
        return CUDA_ERROR_INVALID_VALUE;
    }
    munmap(found->second.pages, found->second.mapped);
    in_use -= found->second.bytes;
    allocations.erase(found);
    return CUDA_SUCCESS;
}

void device_free_all() {
    for (auto &a : allocations)
        munmap(a.second.pages, a.second.mapped);
    allocations.clear();
    in_use = 0;
}

// The last buffer that begins at p or before.
static std::map<const char *, allocation>::iterator before(const char *p) {
    auto next = allocations.upper_bound(p);
    return next == allocations.begin() ? allocations.end() : --next;
}

bool device_holds(const void *p, size_t bytes) {
    auto found = before(static_cast<const char *>(p));
    return found != allocations.end() && static_cast<const char *>(p) + bytes <= found->first + found->second.bytes;
}

std::string describe(const void *p) {
    std::ostringstream text;
    text << "address " << p;
    auto found = before(static_cast<const char *>(p));
    if (found == allocations.end())
        text << " is of no buffer";
    else
        text << " is byte " << static_cast<const char *>(p) - found->first << " of a buffer of " << found->second.bytes;
    return text.str();
}
