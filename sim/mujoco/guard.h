// What every call into the engine is wrapped in, so that the engine's errors come back as codes.
#ifndef DBQPG_GUARD_H_
#define DBQPG_GUARD_H_

#include <setjmp.h>

#include "engine.h"

// A guard is where an engine error jumps to: mju_error must not return to its caller. There is one for each
// call in progress on a thread, and Go keeps a C call on one thread.
typedef struct {
	jmp_buf exit;
	char *message;
	int code;
} guard;

extern __thread guard *engine_guard;

// engine_note keeps what to report: an error before a warning.
void engine_note(guard *g, int code, const char *message);

// ENTER opens a guarded section; LEAVE closes it and yields its code. No local variable may change between them
// and be read after an error.
#define ENTER(text)                     \
	guard g = {.message = (text)};  \
	g.message[0] = '\0';            \
	engine_guard = &g;              \
	if (_setjmp(g.exit) != 0) {     \
		return g.code;          \
	}
#define LEAVE() (engine_guard = NULL, g.code)

#endif
