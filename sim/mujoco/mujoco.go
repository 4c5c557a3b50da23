// Package mujoco reaches the MuJoCo engine through cgo: a Model compiled from MJCF text, and Data, its state.
//
// The engine's arrays are read and written in place, as slices over its memory, so that a step crosses into C
// once and copies nothing. The engine's errors (which it would answer with an exit) and warnings (which it would
// print) come back as *Error.
package mujoco

/*
#cgo CFLAGS: -I${SRCDIR}/../../.deps/mujoco/include
#cgo LDFLAGS: -L${SRCDIR}/../../.deps/mujoco/lib -lmujoco
#cgo !packaged LDFLAGS: -Wl,-rpath,${SRCDIR}/../../.deps/mujoco/lib
#include <stdlib.h>
#include "engine.h"
*/
import "C"

import (
	"fmt"
	"strings"
	"unsafe"
)

// An Error is an error or a warning of the engine.
type Error struct {
	Call    string // what was asked of the engine
	Message string // the engine's own words, on one line
	Warning bool   // the engine went on (after resetting a diverged state); otherwise it stopped half-way
}

func (e *Error) Error() string { return fmt.Sprintf("mujoco: %s: %s", e.Call, e.Message) }

// newError turns a code and a message of engine.h into an error; nil for ENGINE_OK.
func newError(call string, code C.int, message *C.char) error {
	if code == C.ENGINE_OK {
		return nil
	}
	oneLine := strings.Join(strings.Fields(C.GoString(message)), " ")
	return &Error{Call: call, Message: oneLine, Warning: code == C.ENGINE_WARNING}
}

// Version returns the version of the engine that runs, e.g. "3.17.0".
func Version() string { return C.GoString(C.mj_versionString()) }

// A Model is a compiled robot with its world. It is not changed by simulating, so any number of Data in any
// goroutines may use it.
type Model struct {
	c       *C.mjModel
	warning error
}

// Compile makes a model of MJCF text that refers to no other files. It must be closed after the Data that use it.
// What the compiler merely warns of, such as a deprecated attribute, is kept in Warning.
func Compile(mjcf []byte) (*Model, error) {
	text := C.CString(string(mjcf))
	defer C.free(unsafe.Pointer(text))
	message := (*C.char)(C.malloc(C.ENGINE_MESSAGE))
	defer C.free(unsafe.Pointer(message))
	var model *C.mjModel
	code := C.engine_compile(text, &model, message) //nolint:gocritic // what cgo makes of the call
	err := newError("compile model", code, message)
	if code == C.ENGINE_ERROR {
		return nil, err
	}
	return &Model{c: model, warning: err}, nil
}

// Warning returns the first thing that the compiler warned of, an *Error, or nil.
func (m *Model) Warning() error { return m.warning }

// Close frees the model. Closing twice is harmless.
func (m *Model) Close() {
	C.mj_deleteModel(m.c) // accepts NULL
	m.c = nil
}

// NumPositions returns the length of the position vector (a free joint takes 7).
func (m *Model) NumPositions() int { return int(m.c.nq) }

// NumVelocities returns the length of the velocity vector (a free joint takes 6).
func (m *Model) NumVelocities() int { return int(m.c.nv) }

// NumControls returns the number of actuators.
func (m *Model) NumControls() int { return int(m.c.nu) }

// ControlBounds returns the bounds that the engine clamps each actuator's control to.
func (m *Model) ControlBounds() (low, high []float64) {
	bounds := view(m.c.actuator_ctrlrange, 2*m.c.nu)
	for i := 0; i < len(bounds); i += 2 {
		low, high = append(low, bounds[i]), append(high, bounds[i+1])
	}
	return low, high
}

// Timestep returns the length of an engine step in seconds.
func (m *Model) Timestep() float64 { return float64(m.c.opt.timestep) }

// InitialPositions returns the model's initial positions. The slice is the engine's own.
func (m *Model) InitialPositions() []float64 { return view(m.c.qpos0, m.c.nq) }

// BodyMass returns each body's mass in kg, the world's first. The slice is the engine's own.
func (m *Model) BodyMass() []float64 { return view(m.c.body_mass, m.c.nbody) }

// Body returns the index of the named body; ok is false where there is none.
func (m *Model) Body(name string) (index int, ok bool) {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	index = int(C.mj_name2id(m.c, C.mjOBJ_BODY, text))
	return index, index >= 0
}

// view is a slice over n numbers of the engine's memory.
func view[N ~int | ~int32 | ~int64](start *C.mjtNum, n N) []float64 {
	return unsafe.Slice((*float64)(unsafe.Pointer(start)), int(n))
}
