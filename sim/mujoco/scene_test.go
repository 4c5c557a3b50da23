package mujoco

import (
	"bytes"
	"image/png"
	"math"
	"slices"
	"testing"
)

// everything has each type of geom, a material with a checkered texture and one with a cube's.
const everything = `
<mujoco>
  <asset>
    <texture name="checker" builtin="checker" type="2d" width="8" height="8" rgb1="0 0 0" rgb2="1 1 1"/>
    <texture name="flat" builtin="flat" type="cube" width="4" height="24" rgb1="1 0.5 0" rgb2="1 0.5 0"/>
    <material name="floor" texture="checker" texrepeat="3 5" texuniform="true" reflectance="0.25" specular="0.75"
      shininess="1"/>
    <material name="skin" texture="flat" rgba="1 1 1 0.5"/>
    <mesh name="tetrahedron" vertex="0 0 0  1 0 0  0 1 0  0 0 1"/>
  </asset>
  <worldbody>
    <light name="sun" directional="true" dir="0 1 -2" pos="0 0 3"/>
    <geom name="plane" type="plane" size="4 6 0.1" material="floor" pos="0 0 -3"/>
    <body name="trunk" pos="1 2 3" euler="10 20 30">
      <freejoint/>
      <camera name="track" pos="0 -4 1" mode="trackcom" fovy="60"/>
      <geom name="ball" type="sphere" size="0.5" material="skin"/>
      <geom name="bone" type="capsule" size="0.1" fromto="0 0 0 0.3 0.4 0.5" rgba="0.1 0.2 0.3 1"/>
      <body name="limb" pos="0 0 1" euler="0 50 0">
        <joint name="hinge" axis="0 1 0"/>
        <geom type="ellipsoid" size="0.1 0.2 0.3" pos="0.1 0 0" euler="5 6 7"/>
        <geom type="cylinder" size="0.1 0.4" euler="90 0 0"/>
        <geom type="box" size="0.2 0.3 0.4"/>
        <geom type="mesh" mesh="tetrahedron" pos="0 0.2 0"/>
        <geom name="hidden" type="box" size="1 1 1" group="3"/>
      </body>
    </body>
  </worldbody>
  <actuator><motor name="knee" joint="hinge" ctrllimited="true" ctrlrange="-2 3"/></actuator>
</mujoco>`

func TestScene(t *testing.T) {
	m, d := newData(t, everything)
	s := m.Scene()
	var types []string
	for _, g := range s.Geoms {
		types = append(types, g.Type)
	}
	if want := []string{"plane", "sphere", "capsule", "ellipsoid", "cylinder", "box", "mesh"}; !slices.Equal(types,
		want) {
		t.Fatalf("geoms %v, want %v", types, want)
	}
	if !slices.Equal(s.Bodies, []string{"world", "trunk", "limb"}) ||
		!slices.Equal(s.Actuators, []Actuator{{"knee", -2, 3}}) {
		t.Errorf("bodies %v, actuators %v", s.Bodies, s.Actuators)
	}
	if floor := s.Geoms[0]; floor.Texture != 0 || floor.Repeat != [2]float32{3, 5} || !floor.Uniform ||
		floor.Reflectance != 0.25 || floor.Specular != 0.75 {
		t.Errorf("the floor is %+v", floor)
	}
	picture, err := png.Decode(bytes.NewReader(s.Textures[0].PNG))
	if err != nil || len(s.Textures) != 1 {
		t.Fatalf("%d textures, the first: %v", len(s.Textures), err)
	}
	if here, next, across := picture.At(1, 1), picture.At(5, 1), picture.At(5, 5); here == next || here != across {
		t.Errorf("no checker: %v, %v, %v", here, next, across)
	}
	if ball := s.Geoms[1]; ball.Color != [4]float32{1, 128 / 255., 0, 0.5} &&
		ball.Color != [4]float32{1, 127 / 255., 0, 0.5} {
		t.Errorf("the ball's color is %v", ball.Color)
	}
	if bone := s.Geoms[2]; bone.Color != [4]float32{0.1, 0.2, 0.3, 1} {
		t.Errorf("the bone's color is %v", bone.Color)
	}
	if mesh := s.Meshes[s.Geoms[6].Mesh]; len(mesh.Vertices) != 12 || len(mesh.Faces) != 12 {
		t.Errorf("the mesh is %+v", mesh)
	}
	if c := s.Cameras[0]; c.Name != "track" || c.Body != 1 || c.FieldOfView != 60 {
		t.Errorf("the camera is %+v", c)
	}
	if l := s.Lights[0]; !l.Directional || math.Abs(l.Direction[1]/l.Direction[2]+0.5) > 1e-12 {
		t.Errorf("the light is %+v", l)
	}

	// A geom's pose is its body's, then its own in the body: as the engine has it.
	if err := d.Step(20, false); err != nil {
		t.Fatal(err)
	}
	positions, rotations := view(d.d.geom_xpos, 3*d.m.ngeom), view(d.d.geom_xmat, 9*d.m.ngeom)
	for i, g := range s.Geoms {
		body := matrix([4]float64(d.BodyOrientations()[4*g.Body:]))
		local := matrix(g.Quaternion)
		for row := range 3 {
			at := d.BodyPositions()[3*g.Body+row]
			for k := range 3 {
				at += body[3*row+k] * g.Position[k]
			}
			if math.Abs(at-positions[3*i+row]) > 1e-12 {
				t.Errorf("%s: position %d is %v, want %v", g.Type, row, at, positions[3*i+row])
			}
			for column := range 3 {
				turn := 0.
				for k := range 3 {
					turn += body[3*row+k] * local[3*k+column]
				}
				if math.Abs(turn-rotations[9*i+3*row+column]) > 1e-12 {
					t.Errorf("%s: rotation (%d, %d) is %v, want %v", g.Type, row, column, turn,
						rotations[9*i+3*row+column])
				}
			}
		}
	}
}

// matrix is the rotation of a quaternion, row by row.
func matrix(q [4]float64) [9]float64 {
	w, x, y, z := q[0], q[1], q[2], q[3]
	return [9]float64{
		1 - 2*(y*y+z*z), 2 * (x*y - w*z), 2 * (x*z + w*y),
		2 * (x*y + w*z), 1 - 2*(x*x+z*z), 2 * (y*z - w*x),
		2 * (x*z - w*y), 2 * (y*z + w*x), 1 - 2*(x*x+y*y),
	}
}

// A box that lies on the floor is carried by its contacts.
func TestContacts(t *testing.T) {
	_, d := newData(t, `<mujoco><worldbody><geom type="plane" size="1 1 1"/>
		<body pos="0 0 0.1"><freejoint/><geom type="box" size="0.1 0.1 0.1" mass="3"/></body></worldbody></mujoco>`)
	if err := d.Step(2000, false); err != nil {
		t.Fatal(err)
	}
	out := make([]float64, 6*16)
	n := d.Contacts(out)
	var sum [3]float64
	for i := range n {
		if at := out[6*i:]; math.Abs(math.Abs(at[0])-0.1) > 0.01 || math.Abs(at[2]) > 0.01 {
			t.Errorf("contact at %v", at[:3])
		}
		for j := range sum {
			sum[j] += out[6*i+3+j]
		}
	}
	if n != 4 || math.Abs(sum[0]) > 1e-3 || math.Abs(sum[1]) > 1e-3 || math.Abs(sum[2]-3*9.81) > 1e-3 {
		t.Errorf("%d contacts carry %v N, want %v", n, sum, 3*9.81)
	}
	if n := d.Contacts(out[:13]); n != 2 {
		t.Errorf("%d contacts where there is room for 2", n)
	}
}
