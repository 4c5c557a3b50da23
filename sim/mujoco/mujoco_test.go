package mujoco

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
)

// pendulum swings about y under one motor; a second body hangs from the first.
const pendulum = `
<mujoco>
  <option timestep="0.01" %s/>
  %s
  <worldbody>
    <body name="arm">
      <joint name="pivot" type="hinge" axis="0 1 0"/>
      <geom type="capsule" size="0.05" fromto="0 0 0 0 0 -1" mass="1"/>
      <body name="tip" pos="0 0 -1"><geom type="sphere" size="0.1" mass="2"/></body>
    </body>
  </worldbody>
  <actuator><motor joint="pivot" ctrllimited="true" ctrlrange="-1 1"/></actuator>
</mujoco>`

// newData compiles a model and allocates its state for the length of a test.
func newData(t testing.TB, mjcf string) (*Model, *Data) {
	t.Helper()
	m, err := Compile([]byte(mjcf))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	d, err := NewData(m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	if err := d.Reset(nil, nil); err != nil {
		t.Fatal(err)
	}
	return m, d
}

func TestModel(t *testing.T) {
	m, _ := newData(t, fmt.Sprintf(pendulum, "", ""))
	if m.NumPositions() != 1 || m.NumVelocities() != 1 || m.NumControls() != 1 || m.Timestep() != 0.01 {
		t.Errorf("nq %d, nv %d, nu %d, timestep %v", m.NumPositions(), m.NumVelocities(), m.NumControls(), m.Timestep())
	}
	if got := m.BodyMass(); !slices.Equal(got, []float64{0, 1, 2}) {
		t.Errorf("masses %v", got)
	}
	if i, ok := m.Body("tip"); !ok || i != 2 {
		t.Errorf("tip is body %d, %v", i, ok)
	}
	if _, ok := m.Body("tail"); ok {
		t.Error("there is a body named tail")
	}
	if m.Warning() != nil {
		t.Errorf("warning %v", m.Warning())
	}
	if Version() != "3.17.0" {
		t.Errorf("version %s", Version())
	}
}

// Undriven and without damping, the pendulum keeps its energy: m g h + w^2 I / 2.
func TestPhysics(t *testing.T) {
	_, d := newData(t, fmt.Sprintf(pendulum, `integrator="RK4"`, ""))
	if err := d.Reset([]float64{1}, []float64{0.5}); err != nil {
		t.Fatal(err)
	}
	// About the pivot: a capsule of mass 1 about 1 m long and a ball of mass 2 at its end.
	energy := func() float64 {
		q, w := d.Positions()[0], d.Velocities()[0]
		return -9.81*(1*0.5+2*1)*math.Cos(q) + 0.5*w*w*inertia
	}
	before := energy()
	if err := d.Step(100, false); err != nil {
		t.Fatal(err)
	}
	if d.Positions()[0] == 1 {
		t.Error("nothing moved")
	}
	if after := energy(); math.Abs(after-before) > 1e-6*math.Abs(before) {
		t.Errorf("energy went from %v to %v", before, after)
	}
}

// inertia of the pendulum about its pivot, from textbook formulas: a cylinder (length 1) with two half spheres,
// radius 0.05, and a ball of radius 0.1.
var inertia = func() float64 {
	const r, l = 0.05, 1.0
	cylinder, sphere := l*r*r, 4.0/3*r*r*r // volumes / pi
	mc, ms := cylinder/(cylinder+sphere), sphere/(cylinder+sphere)
	about := mc*(l*l/12+r*r/4) + ms*(2*r*r/5+l*l/4+3*l*r/8)
	return about + 1*0.25 + 2*(0.4*0.01+1)
}()

func TestBadModels(t *testing.T) {
	for mjcf, want := range map[string]string{
		"":               "",
		"<mujoco":        "",
		"not xml at all": "",
		"<mujoco><worldbody><body><joint/></body></worldbody></mujoco>": "mass " +
			"and inertia of moving bodies must be larger than",
		"<mujoco><nonsense/></mujoco>":                                         "unrecognized element",
		"<mujoco><actuator><motor joint='none'/></actuator></mujoco>":          "none",
		"<mujoco><worldbody><geom type='mesh' mesh='m'/></worldbody></mujoco>": "mesh",
		"<mujoco><asset><mesh name='m' " +
			"file='/no/such.obj'/></asset></mujoco>": "no/such.obj",
		"<mujoco><option timestep='-1'/><worldbody><geom size='nan'/></worldbody></mujoco>":           "",
		"<mujoco><worldbody><body pos='1e300 1e300 nan'><geom size='0'/></body></worldbody></mujoco>": "",
		strings.Repeat("<mujoco>", 1000) + "<worldbody/>" + strings.Repeat("</mujoco>", 1000):         "",
		"<mujoco><worldbody><body name='a'/><body " +
			"name='a'/></worldbody></mujoco>": "repeated name",
		"<mujoco><compiler inertiafromgeom='true'/><worldbody><body><freejoint/></body></worldbody></mujoco>": "",
	} {
		m, err := Compile([]byte(mjcf))
		if err == nil {
			m.Close()
		}
		var e *Error
		if !errors.As(err, &e) || e.Message == "" || !strings.Contains(e.Message, want) {
			t.Errorf("%.80q: error %v, want %q", mjcf, err, want)
		}
	}
}

func TestCompilerWarning(t *testing.T) {
	const deprecated = "<compiler settotalmass='3'/>"
	m, _ := newData(t, fmt.Sprintf(pendulum, "", deprecated))
	var e *Error
	if !errors.As(m.Warning(), &e) || !e.Warning || !strings.Contains(e.Message, "settotalmass") {
		t.Errorf("warning %v", m.Warning())
	}
	// Why a model failed is said before what it was warned of.
	_, err := Compile(fmt.Appendf(nil, pendulum, "", deprecated+"<nonsense/>"))
	if err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("error %v", err)
	}
}

func TestWarnings(t *testing.T) {
	_, d := newData(t, fmt.Sprintf(pendulum, "", ""))
	for name, spoil := range map[string]func(){
		"ctrl": func() { d.Controls()[0] = math.NaN() },
		"qpos": func() { d.Positions()[0] = math.NaN() },
		"qvel": func() { d.Velocities()[0] = 1e300 },
	} {
		spoil()
		err := d.Step(2, true)
		var e *Error
		if !errors.As(err, &e) || !e.Warning || !strings.Contains(e.Message, "Nan, Inf or huge value") {
			t.Errorf("%s: error %#v", name, err)
		}
		if err := d.Reset(nil, nil); err != nil {
			t.Errorf("%s: reset: %v", name, err)
		}
		if err := d.Step(2, true); err != nil {
			t.Errorf("%s: step after a reset: %v", name, err)
		}
	}
	if err := d.Loop([]float64{0, 0.5, math.NaN()}, 2); err == nil {
		t.Error("loop over NaN: no error")
	}
	if _, err := os.Stat("MUJOCO_LOG.TXT"); err == nil {
		t.Error("the engine wrote its log file")
	}
}

// With little memory the engine stops in the middle of its work, at an error that it would exit on; with somewhat
// more it drops contacts and warns.
func TestOutOfMemory(t *testing.T) {
	mjcf := `<mujoco><size memory="%s"/><worldbody><geom type="plane" size="5 5 1"/>` +
		strings.Repeat(`<body pos="0 0 0.05"><freejoint/><geom size="0.1"/></body>`, 20) + `</worldbody></mujoco>`
	for _, c := range []struct {
		memory  string
		warning bool
		want    string
	}{{"20K", false, "out of memory"}, {"60K", true, "Too many contacts"}} {
		m, err := Compile(fmt.Appendf(nil, mjcf, c.memory))
		if err != nil {
			t.Fatal(err)
		}
		d, err := NewData(m)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			var e *Error
			err := d.Reset(nil, nil)
			if !errors.As(err, &e) || e.Warning != c.warning || !strings.Contains(e.Message, c.want) ||
				strings.Contains(e.Message, "\n") {
				t.Errorf("%s: error %#v", c.memory, err)
			}
		}
		d.Close()
		m.Close()
	}
	if _, enough := newData(t, fmt.Sprintf(mjcf, "10M")); enough.Step(10, true) != nil {
		t.Error("with enough memory it does not work either")
	}
}

func TestWrongLengthPanics(t *testing.T) {
	_, d := newData(t, fmt.Sprintf(pendulum, "", ""))
	defer func() {
		if got := recover(); got != "mujoco: qpos has length 2, want 1" {
			t.Errorf("panic %v", got)
		}
	}()
	_ = d.Reset([]float64{1, 2}, nil)
}

func TestCloseTwice(t *testing.T) {
	m, d := newData(t, fmt.Sprintf(pendulum, "", ""))
	d.Close()
	d.Close()
	m.Close()
	m.Close()
}

// Errors stay with the thread that made them: one simulation fails all the time, its neighbours go on.
func TestGoroutinesAreIndependent(t *testing.T) {
	m, alone := newData(t, fmt.Sprintf(pendulum, "", ""))
	push := func(d *Data) error {
		d.Controls()[0] = 0.5
		return d.Step(3, false)
	}
	for range 200 {
		if err := push(alone); err != nil {
			t.Fatal(err)
		}
	}
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			d, err := NewData(m)
			if err != nil {
				t.Error(err)
				return
			}
			defer d.Close()
			if err := d.Reset(nil, nil); err != nil {
				t.Error(err)
			}
			for range 200 {
				if i%2 == 0 {
					d.Positions()[0] = math.NaN()
				}
				if err := push(d); (err != nil) != (i%2 == 0) {
					t.Errorf("simulation %d: error %v", i, err)
					return
				}
			}
			if i%2 == 1 && d.Positions()[0] != alone.Positions()[0] {
				t.Errorf("simulation %d is at %v, alone at %v", i, d.Positions()[0], alone.Positions()[0])
			}
		})
	}
	group.Wait()
}

// At rest on a plane a ball of 2 kg is held by the external force m g, which the engine computes only if asked.
func TestContactForces(t *testing.T) {
	const ball = `<mujoco><worldbody><geom type="plane" size="5 5 1"/>
		<body pos="0 0 0.1"><freejoint/><geom size="0.1" mass="2"/></body></worldbody></mujoco>`
	_, d := newData(t, ball)
	if err := d.Step(1000, false); err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(d.ContactForces(), func(f float64) bool { return f != 0 }) {
		t.Errorf("not asked for, forces are %v", d.ContactForces())
	}
	if err := d.Step(1, true); err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{0, 0, 0, 0, 0, 2 * 9.81} { // torque and force on the ball
		if got := d.ContactForces()[6+i]; math.Abs(got-want) > 1e-3 {
			t.Errorf("component %d of the force is %v, want %v", i, got, want)
		}
	}
}

func TestLoopEqualsSteps(t *testing.T) {
	_, a := newData(t, fmt.Sprintf(pendulum, "", ""))
	_, b := newData(t, fmt.Sprintf(pendulum, "", ""))
	controls := []float64{0.3, -2, 0.7, 1}
	if err := a.Loop(controls, 5); err != nil {
		t.Fatal(err)
	}
	for _, u := range controls {
		b.Controls()[0] = u
		if err := b.Step(5, true); err != nil {
			t.Fatal(err)
		}
	}
	if a.Positions()[0] != b.Positions()[0] || a.Velocities()[0] != b.Velocities()[0] {
		t.Errorf("loop ends at %v, steps at %v", a.Positions(), b.Positions())
	}
}
