#define _GNU_SOURCE
#include "render.h"

#if __has_include(<mujoco/mujoco.h>)

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guard.h"

// EGL and OSMesa by hand: their headers are not needed to build, nor they themselves to run anything else. The values
// are those of EGL/egl.h, EGL/eglext.h and GL/osmesa.h.
enum {
	EGL_SURFACE_TYPE = 0x3033, EGL_PBUFFER_BIT = 1, EGL_RENDERABLE_TYPE = 0x3040, EGL_OPENGL_BIT = 8,
	EGL_RED = 0x3024, EGL_GREEN = 0x3023, EGL_BLUE = 0x3022, EGL_DEPTH = 0x3025, EGL_STENCIL = 0x3026, EGL_NONE = 0x3038,
	EGL_OPENGL_API = 0x30A2, EGL_PLATFORM_DEVICE = 0x313F,
	OSMESA_RGBA = 0x1908, OSMESA_BYTE = 0x1401,
	MAX_DEVICES = 16,
};

// load sets a function pointer, or returns from the function that it is called in.
#define LOAD(handle, pointer, name)                            \
	*(void **)&(pointer) = dlsym((handle), (name));        \
	if ((pointer) == NULL) {                               \
		return 0;                                      \
	}

static void *open_library(const char *const *names) {
	void *handle = NULL;
	for (; handle == NULL && *names != NULL; names++) {
		handle = dlopen(*names, RTLD_NOW | RTLD_GLOBAL); // global: the engine looks its functions up there
	}
	return handle;
}

// egl_on makes a context on a display; false if it cannot.
static int egl_on(renderer *r, void *egl, void *display) {
	unsigned (*initialize)(void *, int *, int *), (*bind)(unsigned);
	unsigned (*choose)(void *, const int *, void **, int, int *), (*make_current)(void *, void *, void *, void *);
	void *(*create)(void *, void *, void *, const int *);
	LOAD(egl, initialize, "eglInitialize");
	LOAD(egl, bind, "eglBindAPI");
	LOAD(egl, choose, "eglChooseConfig");
	LOAD(egl, create, "eglCreateContext");
	LOAD(egl, make_current, "eglMakeCurrent");
	static const int wanted[] = {EGL_SURFACE_TYPE, EGL_PBUFFER_BIT, EGL_RENDERABLE_TYPE, EGL_OPENGL_BIT, EGL_RED, 8,
		EGL_GREEN, 8, EGL_BLUE, 8, EGL_DEPTH, 24, EGL_STENCIL, 8, EGL_NONE};
	void *config;
	int found = 0;
	if (display == NULL || !initialize(display, NULL, NULL) || !bind(EGL_OPENGL_API) ||
	    !choose(display, wanted, &config, 1, &found) || found < 1) {
		return 0;
	}
	void *context = create(display, config, NULL, NULL);
	if (context == NULL) {
		return 0;
	}
	if (!make_current(display, NULL, NULL, context)) {
		unsigned (*destroy)(void *, void *);
		LOAD(egl, destroy, "eglDestroyContext");
		destroy(display, context);
		return 0;
	}
	r->api = "egl";
	r->display = display;
	r->gl = context;
	return 1;
}

static const char *const egl_names[] = {"libEGL.so.1", "libEGL.so", NULL};

// start_egl tries each device, as a machine without a display has them, then the default display.
static int start_egl(renderer *r) {
	void *egl = open_library(egl_names);
	if (egl == NULL) {
		return 0;
	}
	void *(*address)(const char *), *(*default_display)(void *);
	LOAD(egl, address, "eglGetProcAddress");
	LOAD(egl, default_display, "eglGetDisplay");
	unsigned (*devices)(int, void **, int *);
	void *(*platform_display)(unsigned, void *, const int *);
	*(void **)&devices = address("eglQueryDevicesEXT");
	*(void **)&platform_display = address("eglGetPlatformDisplayEXT");
	void *all[MAX_DEVICES];
	int count = 0;
	if (devices != NULL && platform_display != NULL && devices(MAX_DEVICES, all, &count)) {
		for (int i = 0; i < count; i++) {
			if (egl_on(r, egl, platform_display(EGL_PLATFORM_DEVICE, all[i], NULL))) {
				return 1;
			}
		}
	}
	return egl_on(r, egl, default_display(NULL));
}

static const char *const osmesa_names[] = {"libOSMesa.so.8", "libOSMesa.so.6", "libOSMesa.so", NULL};

static int start_osmesa(renderer *r) {
	void *osmesa = open_library(osmesa_names);
	if (osmesa == NULL) {
		return 0;
	}
	void *(*create)(unsigned, int, int, int, void *);
	unsigned char (*make_current)(void *, void *, unsigned, int, int);
	void (*destroy)(void *);
	LOAD(osmesa, create, "OSMesaCreateContextExt");
	LOAD(osmesa, make_current, "OSMesaMakeCurrent");
	LOAD(osmesa, destroy, "OSMesaDestroyContext");
	void *context = create(OSMESA_RGBA, 24, 8, 0, NULL);
	void *pixels = calloc(r->width, 4 * (size_t)r->height);
	if (context == NULL || pixels == NULL || !make_current(context, pixels, OSMESA_BYTE, r->width, r->height)) {
		if (context != NULL) {
			destroy(context);
		}
		free(pixels);
		return 0;
	}
	r->api = "osmesa";
	r->gl = context;
	r->pixels = pixels;
	return 1;
}

// stop ends the OpenGL context.
static void stop(renderer *r) {
	void *library = open_library(r->pixels == NULL ? egl_names : osmesa_names);
	if (r->pixels != NULL) {
		void (*destroy)(void *);
		*(void **)&destroy = dlsym(library, "OSMesaDestroyContext");
		destroy(r->gl);
		free(r->pixels);
		return;
	}
	unsigned (*make_current)(void *, void *, void *, void *), (*destroy)(void *, void *);
	*(void **)&make_current = dlsym(library, "eglMakeCurrent");
	*(void **)&destroy = dlsym(library, "eglDestroyContext");
	if (make_current != NULL && destroy != NULL) {
		make_current(r->display, NULL, NULL, NULL);
		destroy(r->display, r->gl);
	}
}

enum { GEOMS = 2000, SHADOW = 1024, HAS_GL = 1, HAS_SCENE, HAS_CONTEXT };

int engine_render_new(renderer *r, mjModel *model) {
	const char *asked = getenv("MUJOCO_GL"); // as with MuJoCo's own programs
	const int egl = asked == NULL || strcmp(asked, "osmesa") != 0;
	ENTER(r->message);
	if (!(egl && start_egl(r)) && !start_osmesa(r)) {
		engine_note(&g, ENGINE_ERROR, "neither EGL nor OSMesa gives an OpenGL context");
		return LEAVE();
	}
	r->stages = HAS_GL;
	setenv("MUJOCO_GL", r->api, 1); // where the engine's loader looks for OpenGL's functions
	model->vis.global.offwidth = r->width;
	model->vis.global.offheight = r->height;
	model->vis.quality.shadowsize = SHADOW; // without a GPU, shadows and reflections take most of the time
	model->vis.quality.offsamples = 0;
	mjv_defaultOption(&r->option);
	mjv_defaultFreeCamera(model, &r->camera);
	int track = mj_name2id(model, mjOBJ_CAMERA, "track");
	if (track >= 0) {
		r->camera.type = mjCAMERA_FIXED;
		r->camera.fixedcamid = track;
	}
	mjv_defaultScene(&r->scene);
	mjv_makeScene(model, &r->scene, GEOMS);
	r->scene.flags[mjRND_REFLECTION] = 0;
	r->stages = HAS_SCENE;
	mjr_defaultContext(&r->context);
	mjr_makeContext(model, &r->context, mjFONTSCALE_100);
	r->stages = HAS_CONTEXT;
	mjr_setBuffer(mjFB_OFFSCREEN, &r->context);
	if (r->context.currentBuffer != mjFB_OFFSCREEN) {
		engine_note(&g, ENGINE_ERROR, "OpenGL has no offscreen buffer");
	}
	return LEAVE();
}

int engine_render(renderer *r, const simulation *s, unsigned char *rgb) {
	ENTER(r->message);
	mjrRect viewport = {0, 0, r->width, r->height};
	mjv_updateScene(s->model, s->data, &r->option, NULL, &r->camera, mjCAT_ALL, &r->scene);
	mjr_render(viewport, &r->scene, &r->context);
	mjr_readPixels(rgb, NULL, viewport, &r->context);
	return LEAVE();
}

void engine_render_free(renderer *r) {
	if (r->stages >= HAS_CONTEXT) {
		mjr_freeContext(&r->context);
	}
	if (r->stages >= HAS_SCENE) {
		mjv_freeScene(&r->scene);
	}
	if (r->stages >= HAS_GL) {
		stop(r);
	}
	r->stages = 0;
}

#endif
