package mujoco

/*
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "render.h"
*/
import "C"

import (
	"fmt"
	"runtime"
	"unsafe"
)

// A Renderer draws states of a model into images, by EGL or OSMesa, which are loaded for it. It is used by the
// goroutine that made it, which is bound to its thread until Close.
type Renderer struct {
	c             *C.renderer
	Width, Height int // of an image, in pixels
}

// NewRenderer returns a renderer of a model's states, seen by the model's camera "track" if it has one. The error is an
// *Error where the machine has no OpenGL.
func NewRenderer(m *Model, width, height int) (*Renderer, error) {
	runtime.LockOSThread() // a context of OpenGL is current on one thread
	r := &Renderer{(*C.renderer)(C.calloc(1, C.sizeof_renderer)), width, height}
	r.c.width, r.c.height = C.int(width), C.int(height)
	if code := C.engine_render_new(r.c, m.c); code == C.ENGINE_ERROR {
		err := newError("render", code, &r.c.message[0])
		r.Close()
		return nil, err
	}
	return r, nil
}

// Render draws a state into rgb, 3 bytes a pixel, the bottom row first.
func (r *Renderer) Render(d *Data, rgb []byte) error {
	if len(rgb) != 3*r.Width*r.Height {
		panic(fmt.Sprintf("mujoco: rendering %d x %d pixels into %d bytes", r.Width, r.Height, len(rgb)))
	}
	return newError("render", C.engine_render(r.c, d.c, (*C.uchar)(unsafe.SliceData(rgb))), &r.c.message[0])
}

// Close frees the renderer.
func (r *Renderer) Close() {
	C.engine_render_free(r.c)
	C.free(unsafe.Pointer(r.c))
	r.c = nil
	runtime.UnlockOSThread()
}
