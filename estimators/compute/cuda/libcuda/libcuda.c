/*
 * libcuda.a: the functions of NVIDIA's driver that the program refers to, each one a jump to the function
 * of that name in the machine's libcuda.so.1, which cuInit looks up.
 *
 * So a program links on a machine without a driver, and starts there too: gorgonia.org/cu calls cuInit
 * before main and exits where that fails, hence cuInit always succeeds here. Without a working driver there
 * are simply no devices, and libcuda_problem says why.
 */
#include "libcuda.h"

#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

enum { SUCCESS = 0, NOT_INITIALIZED = 3, SYMBOL_NOT_FOUND = 302, NO_LIBRARY = -1 };

typedef int (*function)(void);

static int not_initialized(void) { return NOT_INITIALIZED; }
static int symbol_not_found(void) { return SYMBOL_NOT_FOUND; }

/* One variable a function: where its jump goes. */
#define SYMBOL(name) __attribute__((visibility("hidden"))) function slot_##name = not_initialized;
#include "symbols.h"
#undef SYMBOL

/*
 * The jumps. They leave the registers and the stack as the caller set them, so no signature need be known.
 * Hidden, like all of the archive: libraries that are loaded later must find the driver's functions, not these.
 */
#if defined(__x86_64__)
#define JUMP(name) "endbr64\n jmp *slot_" #name "(%rip)\n"
#elif defined(__aarch64__)
#define JUMP(name) "hint #34\n adrp x16, slot_" #name "\n ldr x16, [x16, :lo12:slot_" #name "]\n br x16\n"
#else
#error "libcuda.c knows x86_64 and aarch64"
#endif

#define SYMBOL(name)                                                                                  \
	__asm__(".text\n .p2align 4\n .globl " #name "\n .hidden " #name "\n .type " #name ", %function\n" \
	        #name ":\n " JUMP(name) " .size " #name ", . - " #name "\n");
#include "symbols.h"
#undef SYMBOL

static struct {
	const char *name;
	function *slot;
} const table[] = {
#define SYMBOL(name) {#name, &slot_##name},
#include "symbols.h"
#undef SYMBOL
};

static int code;          /* of the first failure, see libcuda_problem */
static char message[512]; /* dlopen's */
static int (*get_count)(int *);

#define HIDDEN __attribute__((visibility("hidden")))

/* find returns the library's function of that name; one that an old driver lacks fails when it is called. */
static void *find(void *library, const char *name) {
	void *f = dlsym(library, name);
	return f != NULL ? f : (void *)symbol_not_found;
}

HIDDEN int cuInit(unsigned flags) {
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	if (library == NULL) {
		code = NO_LIBRARY;
		const char *why = dlerror();
		strncpy(message, why != NULL ? why : "", sizeof message - 1);
		return SUCCESS;
	}
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
		*table[i].slot = (function)find(library, table[i].name);
	get_count = find(library, "cuDeviceGetCount");
	int (*init)(unsigned) = find(library, "cuInit");
	code = init(flags);
	return SUCCESS;
}

HIDDEN int cuDeviceGetCount(int *count) {
	*count = 0;
	return code == SUCCESS && get_count != NULL ? get_count(count) : SUCCESS;
}

HIDDEN const char *libcuda_problem(int *c) {
	*c = code;
	return message;
}
