package play

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/dbqpg/dbqpg/sim"
	"github.com/dbqpg/dbqpg/sim/mujoco"
)

const (
	// maxContacts bounds the contacts in a frame.
	maxContacts = 64
	// pushSeconds is how long a push lasts, in the simulation, unless the viewer repeats it.
	pushSeconds = 0.25
	// maxPush bounds a push, as a multiple of the robot's weight.
	maxPush = 20
	// gravity, in m/s², makes that a weight also where the model has none.
	gravity = 9.81
)

// How an episode ended, in a frame.
const (
	goesOn uint16 = iota
	terminated
	timeLimit
)

const frameHeader = 28 // bytes

// A stage is an environment that draws its state.
type stage struct {
	sim.Env
	spec sim.Spec
	data *mujoco.Data
	mass float64                 // in kg
	dt   float64                 // seconds a step
	show func(needed bool) error // is called after each reset and step

	episode  uint64
	steps    int
	reward   float64
	sum      float64 // of rewards
	end      uint16
	contacts bool // are to be shown
	push     Command
	pushed   int // steps that the push still lasts
	touching [6 * maxContacts]float64
}

// Reset begins an episode.
func (s *stage) Reset(rng *rand.Rand, observation []float64) error {
	s.steps, s.reward, s.sum, s.end, s.pushed = 0, 0, 0, goesOn, 0
	if err := s.Env.Reset(rng, observation); err != nil {
		return err
	}
	return s.show(true)
}

// Step takes a step, in which the robot is pushed if the viewer wants it.
func (s *stage) Step(action, observation []float64) (reward float64, ended bool, err error) {
	s.applyPush()
	reward, ended, err = s.Env.Step(action, observation)
	if err != nil {
		return reward, ended, err
	}
	s.steps++
	s.reward, s.sum = reward, s.sum+reward
	switch {
	case ended:
		s.end = terminated
	case s.steps == s.spec.TimeLimit:
		s.end = timeLimit
	}
	return reward, ended, s.show(s.end != goesOn)
}

// applyPush sets the forces of the viewer's push for the next step.
func (s *stage) applyPush() {
	forces := s.data.AppliedForces()
	clear(forces)
	if s.pushed--; s.pushed < 0 {
		s.pushed = 0
		return
	}
	b := s.push.Body
	at := rotate([4]float64(s.data.BodyOrientations()[4*b:]), s.push.Point)
	for i := range at {
		at[i] += s.data.BodyPositions()[3*b+i] - s.data.BodyCenters()[3*b+i]
	}
	f := s.push.Force
	copy(forces[6*b:], []float64{
		f[0], f[1], f[2],
		at[1]*f[2] - at[2]*f[1], at[2]*f[0] - at[0]*f[2], at[0]*f[1] - at[1]*f[0],
	})
}

// startPush begins a push, with no more force than maxPush, of a body that is there.
func (s *stage) startPush(c Command) {
	if c.Body < 1 || c.Body >= len(s.data.BodyPositions())/3 {
		return
	}
	if n, most := norm(c.Force), maxPush*s.mass*gravity; n > most {
		for i := range c.Force {
			c.Force[i] *= most / n
		}
	}
	s.push, s.pushed = c, max(1, int(pushSeconds/s.dt))
}

// rotate returns v rotated by the unit quaternion q = (w, u): v + 2w u×v + 2 u×(u×v).
func rotate(q [4]float64, v [3]float64) [3]float64 {
	cross := func(v [3]float64) [3]float64 {
		return [3]float64{q[2]*v[2] - q[3]*v[1], q[3]*v[0] - q[1]*v[2], q[1]*v[1] - q[2]*v[0]}
	}
	once := cross(v)
	twice := cross(once)
	for i := range v {
		v[i] += 2*q[0]*once[i] + 2*twice[i]
	}
	return v
}

// frame appends the frame of the present state to dst: see the package's documentation.
func (s *stage) frame(dst []byte) []byte {
	contacts := 0
	if s.contacts {
		contacts = s.data.Contacts(s.touching[:])
	}
	positions, orientations := s.data.BodyPositions(), s.data.BodyOrientations()
	dst = slices.Grow(dst, frameHeader+4*s.spec.ActionDim+28*(len(positions)/3)+24*contacts)
	order := binary.LittleEndian
	dst = order.AppendUint32(dst, uint32(s.steps))
	dst = order.AppendUint32(dst, uint32(s.episode))
	dst = order.AppendUint64(dst, math.Float64bits(s.sum))
	dst = appendFloats(dst, s.reward, float64(s.steps)*s.dt)
	dst = order.AppendUint16(dst, s.end)
	dst = order.AppendUint16(dst, uint16(contacts))
	for i, x := range s.data.Controls() {
		dst = appendFloats(dst, min(max(x, s.spec.Low[i]), s.spec.High[i]))
	}
	for b := 1; b < len(positions)/3; b++ {
		dst = appendFloats(dst, positions[3*b:3*b+3]...)
		dst = appendFloats(dst, orientations[4*b:4*b+4]...)
	}
	return appendFloats(dst, s.touching[:6*contacts]...)
}

func appendFloats(dst []byte, values ...float64) []byte {
	for _, x := range values {
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(float32(x)))
	}
	return dst
}
