// MuJoCo's own renderer, without a window: OpenGL by EGL or OSMesa, which are loaded when the first renderer is made.
#ifndef DBQPG_RENDER_H_
#define DBQPG_RENDER_H_

#include "engine.h"

#if __has_include(<mujoco/mujoco.h>)

// A renderer belongs to the thread that made it.
typedef struct {
	int width, height;
	int stages; // of engine_render_new that were completed
	const char *api; // EGL or OSMesa
	void *display, *gl, *pixels;
	mjvScene scene;
	mjvCamera camera;
	mjvOption option;
	mjrContext context;
	char message[ENGINE_MESSAGE];
} renderer;

// engine_render_new makes an OpenGL context and what draws a model in it. The camera is the model's "track" if it has
// one. After an error, engine_render_free is still due.
int engine_render_new(renderer *r, mjModel *model);

// engine_render draws a state: rgb receives 3 bytes a pixel, the bottom row first.
int engine_render(renderer *r, const simulation *s, unsigned char *rgb);

void engine_render_free(renderer *r);

#endif
#endif
