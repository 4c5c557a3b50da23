package mujoco

/*
#include <stdlib.h>
#include "engine.h"
*/
import "C"

import (
	"fmt"
	"slices"
	"unsafe"
)

// Data is the state of one simulation. It is used by one goroutine at a time.
//
// The slices that its methods return are the engine's own memory, rewritten by each step and gone after Close.
// Quantities that follow from positions (poses, inertias, velocities and forces of bodies) are those of the
// beginning of the latest engine step, as everywhere in MuJoCo: a step ends by integrating.
type Data struct {
	c *C.simulation
	m *C.mjModel
	d *C.mjData
}

// NewData allocates the state of a model; Reset starts it.
func NewData(m *Model) (*Data, error) {
	s := (*C.simulation)(C.calloc(1, C.sizeof_simulation))
	s.model = m.c
	if err := newError("allocate state", C.engine_new(s), &s.message[0]); err != nil {
		C.mj_deleteData(s.data)
		C.free(unsafe.Pointer(s))
		return nil, err
	}
	return &Data{c: s, m: m.c, d: s.data}, nil
}

// Close frees the state. Closing twice is harmless.
func (d *Data) Close() {
	if d.c == nil {
		return
	}
	C.mj_deleteData(d.d)
	C.free(unsafe.Pointer(d.c))
	*d = Data{}
}

// Reset clears the whole state (time, warnings and the solver's warm start with it), sets positions and
// velocities (nil: the model's initial positions, and rest) and computes what follows from them.
func (d *Data) Reset(qpos, qvel []float64) error {
	checkLength("qpos", qpos, int(d.m.nq))
	checkLength("qvel", qvel, int(d.m.nv))
	code := C.engine_reset(d.c, (*C.double)(unsafe.SliceData(qpos)), (*C.double)(unsafe.SliceData(qvel)))
	return newError("reset", code, &d.c.message[0])
}

func checkLength(name string, v []float64, want int) {
	if v != nil && len(v) != want {
		panic(fmt.Sprintf("mujoco: %s has length %d, want %d", name, len(v), want))
	}
}

// Step makes n engine steps under the controls in Controls. With contactForces it also fills ContactForces, which
// otherwise stay zero. After an error only Reset and Close may be called.
func (d *Data) Step(n int, contactForces bool) error {
	var forces C.int
	if contactForces {
		forces = 1
	}
	if code := C.engine_step(d.c, C.int(n), forces); code != C.ENGINE_OK {
		return newError("step", code, &d.c.message[0])
	}
	return nil
}

// StateSize returns the length of what Save appends.
func (m *Model) StateSize() int { return int(C.mj_stateSize(m.c, C.mjSTATE_INTEGRATION)) }

// Save appends to dst all that a step depends on, in MuJoCo's order: its integration state, with the solver's warm
// start.
func (d *Data) Save(dst []float64) []float64 {
	n := int(C.mj_stateSize(d.m, C.mjSTATE_INTEGRATION))
	dst = slices.Grow(dst, n)[:len(dst)+n]
	C.mj_getState(d.m, d.d, (*C.mjtNum)(unsafe.SliceData(dst[len(dst)-n:])), C.mjSTATE_INTEGRATION)
	return dst
}

// Load sets what Save appended, of this or another Data of the model, after which steps are the same to the last bit.
// What follows from the state (poses, forces) is zero until the next step.
func (d *Data) Load(state []float64) error {
	if want := int(C.mj_stateSize(d.m, C.mjSTATE_INTEGRATION)); len(state) != want {
		panic(fmt.Sprintf("mujoco: a state of length %d, want %d", len(state), want))
	}
	code := C.engine_load(d.c, (*C.double)(unsafe.SliceData(state)))
	return newError("load state", code, &d.c.message[0])
}

// Loop is the bare engine, for measuring what comes on top of it: each row of controls (one number an actuator)
// for n engine steps, in one loop in C.
func (d *Data) Loop(controls []float64, n int) error {
	rows := len(controls) / int(d.m.nu)
	code := C.engine_loop(d.c, (*C.double)(unsafe.SliceData(controls)), C.int(rows), C.int(n))
	return newError("loop", code, &d.c.message[0])
}

// Controls returns one number an actuator, to be set before a step.
func (d *Data) Controls() []float64 { return view(d.d.ctrl, d.m.nu) }

// Positions returns the joints' positions, qpos.
func (d *Data) Positions() []float64 { return view(d.d.qpos, d.m.nq) }

// Velocities returns the joints' velocities, qvel.
func (d *Data) Velocities() []float64 { return view(d.d.qvel, d.m.nv) }

// ActuatorForces returns the actuators' forces on each degree of freedom, qfrc_actuator.
func (d *Data) ActuatorForces() []float64 { return view(d.d.qfrc_actuator, d.m.nv) }

// BodyPositions returns the bodies' frames in the world, xpos: 3 numbers a body.
func (d *Data) BodyPositions() []float64 { return view(d.d.xpos, 3*d.m.nbody) }

// BodyCenters returns the bodies' centers of mass in the world, xipos: 3 numbers a body.
func (d *Data) BodyCenters() []float64 { return view(d.d.xipos, 3*d.m.nbody) }

// BodyInertias returns the bodies' inertias about their tree's center of mass, and masses, cinert: 10 a body.
func (d *Data) BodyInertias() []float64 { return view(d.d.cinert, 10*d.m.nbody) }

// BodyVelocities returns the bodies' rotational and linear velocities about that center, cvel: 6 a body.
func (d *Data) BodyVelocities() []float64 { return view(d.d.cvel, 6*d.m.nbody) }

// ContactForces returns the external torques and forces on the bodies, cfrc_ext: 6 a body.
func (d *Data) ContactForces() []float64 { return view(d.d.cfrc_ext, 6*d.m.nbody) }
