package mujoco

/*
#include "engine.h"
*/
import "C"

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"unsafe"
)

// A Scene is what drawing a model takes besides the poses of its bodies. Lengths are in m, quaternions are w, x, y, z,
// colors red, green, blue and opacity from 0 to 1.
type Scene struct {
	Timestep  float64    `json:"timestep"` // of the engine, in s
	Mass      float64    `json:"mass"`     // of all bodies, in kg
	Center    [3]float64 `json:"center"`   // of the model at its initial positions
	Extent    float64    `json:"extent"`   // about how far the model reaches
	Bodies    []string   `json:"bodies"`   // names; the world is body 0
	Geoms     []Geom     `json:"geoms"`
	Meshes    []Mesh     `json:"meshes"`
	Textures  []Texture  `json:"textures"`
	Lights    []Light    `json:"lights"`
	Cameras   []Camera   `json:"cameras"`
	Actuators []Actuator `json:"actuators"`
}

// A Geom is a shape that is fixed to a body.
type Geom struct {
	Name string `json:"name"`
	Type string `json:"type"` // plane, sphere, capsule, ellipsoid, cylinder, box or mesh
	Body int    `json:"body"`
	// as in MJCF: radii and halves of lengths; of a plane, halves of its sides, 0 for infinite
	Size        [3]float64 `json:"size"`
	Position    [3]float64 `json:"position"`
	Quaternion  [4]float64 `json:"quaternion"`
	Color       [4]float32 `json:"color"`
	Mesh        int        `json:"mesh"`    // -1: none
	Texture     int        `json:"texture"` // -1: none
	Repeat      [2]float32 `json:"repeat"`  // of the texture along x and y: over the plane, or with Uniform over 1 m
	Uniform     bool       `json:"uniform"`
	Specular    float32    `json:"specular"`
	Shininess   float32    `json:"shininess"`
	Reflectance float32    `json:"reflectance"`
	Emission    float32    `json:"emission"`
}

// A Mesh is a surface of triangles.
type Mesh struct {
	Vertices []float32 `json:"vertices"` // 3 numbers each
	Faces    []int32   `json:"faces"`    // 3 vertices each
}

// A Texture is an image that is repeated on a plane.
type Texture struct {
	PNG []byte `json:"png"`
}

// A Light is one of the model's.
type Light struct {
	Directional bool       `json:"directional"`
	Shadow      bool       `json:"shadow"`
	Body        int        `json:"body"`
	Position    [3]float64 `json:"position"`
	Direction   [3]float64 `json:"direction"`
	Diffuse     [3]float32 `json:"diffuse"`
}

// A Camera is one of the model's.
type Camera struct {
	Name        string     `json:"name"`
	Body        int        `json:"body"`
	Offset      [3]float64 `json:"offset"` // from the body to the camera in the world, at the initial positions
	Position    [3]float64 `json:"position"`
	Quaternion  [4]float64 `json:"quaternion"`
	FieldOfView float64    `json:"fieldOfView"` // vertical, in degrees
}

// An Actuator is moved by one number of an action.
type Actuator struct {
	Name string  `json:"name"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// geomTypes are the types that are drawn.
var geomTypes = map[int32]string{
	C.mjGEOM_PLANE: "plane", C.mjGEOM_SPHERE: "sphere", C.mjGEOM_CAPSULE: "capsule", C.mjGEOM_ELLIPSOID: "ellipsoid",
	C.mjGEOM_CYLINDER: "cylinder", C.mjGEOM_BOX: "box", C.mjGEOM_MESH: "mesh",
}

// lastGroup is the last of the groups of geoms that MuJoCo's viewers show unless asked otherwise.
const lastGroup = 2

// Scene describes the model for drawing.
func (m *Model) Scene() *Scene {
	c := m.c
	s := &Scene{
		Timestep: m.Timestep(), Mass: float64(*c.body_subtreemass), Center: triple(&c.stat.center[0], 0),
		Extent: float64(c.stat.extent),
		Bodies: []string{}, Geoms: []Geom{}, Meshes: []Mesh{}, Textures: []Texture{}, Lights: []Light{},
		Cameras: []Camera{}, Actuators: []Actuator{},
	}
	for i := range int(c.nbody) {
		s.Bodies = append(s.Bodies, m.name(C.mjOBJ_BODY, i))
	}
	textures, tints := s.addTextures(c)
	for i := range int(c.ngeom) {
		if name, known := geomTypes[at[int32](c.geom_type, i)]; known && at[int32](c.geom_group, i) <= lastGroup {
			s.Geoms = append(s.Geoms, m.geom(i, name, textures, tints))
		}
	}
	for i := range int(c.nmesh) {
		vertices := unsafe.Slice((*float32)(unsafe.Pointer(c.mesh_vert)),
			3*int(c.nmeshvert))[3*at[int32](c.mesh_vertadr, i):]
		faces := unsafe.Slice((*int32)(unsafe.Pointer(c.mesh_face)),
			3*int(c.nmeshface))[3*at[int32](c.mesh_faceadr, i):]
		s.Meshes = append(s.Meshes, Mesh{
			append([]float32{}, vertices[:3*at[int32](c.mesh_vertnum, i)]...),
			append([]int32{}, faces[:3*at[int32](c.mesh_facenum, i)]...),
		})
	}
	for i := range int(c.nlight) {
		s.Lights = append(s.Lights, Light{
			Directional: at[int32](c.light_type, i) == C.mjLIGHT_DIRECTIONAL, Shadow: at[bool](c.light_castshadow, i),
			Body:     int(at[int32](c.light_bodyid, i)),
			Position: triple(c.light_pos, i), Direction: triple(c.light_dir, i),
			Diffuse: at[[3]float32](c.light_diffuse, i),
		})
	}
	for i := range int(c.ncam) {
		s.Cameras = append(s.Cameras, Camera{
			m.name(C.mjOBJ_CAMERA, i), int(at[int32](c.cam_bodyid, i)), triple(c.cam_pos0, i), triple(c.cam_pos, i),
			at[[4]float64](c.cam_quat, i),
			at[float64](c.cam_fovy, i),
		})
	}
	low, high := m.ControlBounds()
	for i := range low {
		s.Actuators = append(s.Actuators, Actuator{m.name(C.mjOBJ_ACTUATOR, i), low[i], high[i]})
	}
	return s
}

// geom describes a geom. textures and tints are what addTextures returns.
func (m *Model) geom(i int, kind string, textures []int, tints [][3]float32) Geom {
	c := m.c
	g := Geom{
		Name: m.name(C.mjOBJ_GEOM, i), Type: kind, Body: int(at[int32](c.geom_bodyid, i)), Size: triple(c.geom_size, i),
		Position: triple(c.geom_pos, i), Quaternion: at[[4]float64](c.geom_quat, i),
		Color: at[[4]float32](c.geom_rgba, i),
		// as without a material in MuJoCo
		Mesh: -1, Texture: -1, Specular: 0.5, Shininess: 0.5, Repeat: [2]float32{1, 1},
	}
	if kind == "mesh" {
		g.Mesh = int(at[int32](c.geom_dataid, i))
	}
	material := int(at[int32](c.geom_matid, i))
	if material < 0 {
		return g
	}
	if g.Color == [4]float32{0.5, 0.5, 0.5, 1} { // the default: not given
		g.Color = at[[4]float32](c.mat_rgba, material)
	}
	g.Specular, g.Shininess = at[float32](c.mat_specular, material), at[float32](c.mat_shininess, material)
	g.Reflectance, g.Emission = at[float32](c.mat_reflectance, material), at[float32](c.mat_emission, material)
	texture := at[int32](c.mat_texid, material*C.mjNTEXROLE+C.mjTEXROLE_RGB)
	if texture < 0 {
		texture = at[int32](c.mat_texid, material*C.mjNTEXROLE+C.mjTEXROLE_RGBA)
	}
	switch {
	case texture < 0:
	case kind == "plane" && textures[texture] >= 0:
		g.Texture, g.Repeat, g.Uniform = textures[texture], at[[2]float32](c.mat_texrepeat, material),
			at[bool](c.mat_texuniform, material)
	default:
		for j := range tints[texture] {
			g.Color[j] *= tints[texture][j]
		}
	}
	return g
}

// addTextures adds the two-dimensional textures. It returns the index of each of the model's textures in the scene, or
// -1, and each one's mean color, which stands for it elsewhere than on planes.
func (s *Scene) addTextures(c *C.mjModel) (indices []int, tints [][3]float32) {
	for i := range int(c.ntex) {
		width, height, channels := int(at[int32](c.tex_width, i)), int(at[int32](c.tex_height, i)),
			int(at[int32](c.tex_nchannel, i))
		pixels := unsafe.Slice((*byte)(unsafe.Pointer(c.tex_data)),
			int(c.ntexdata))[at[int64](c.tex_adr, i):][:width*height*channels]
		picture := image.NewNRGBA(image.Rect(0, 0, width, height))
		var sums [3]float64
		for p := range width * height {
			pixel := pixels[p*channels:][:channels]
			rgb := [3]byte{pixel[0], pixel[min(1, channels-1)], pixel[min(2, channels-1)]}
			picture.SetNRGBA(p%width, p/width, color.NRGBA{rgb[0], rgb[1], rgb[2], 255})
			for j, x := range rgb {
				sums[j] += float64(x)
			}
		}
		index := -1
		if at[int32](c.tex_type, i) == C.mjTEXTURE_2D {
			var file bytes.Buffer
			if err := png.Encode(&file, picture); err != nil {
				panic("mujoco: a texture in memory cannot be encoded: " + err.Error())
			}
			index = len(s.Textures)
			s.Textures = append(s.Textures, Texture{file.Bytes()})
		}
		scale := 1 / (255 * float64(width*height))
		indices, tints = append(indices, index),
			append(tints, [3]float32{float32(sums[0] * scale), float32(sums[1] * scale), float32(sums[2] * scale)})
	}
	return indices, tints
}

// name returns the name of an object, or "".
func (m *Model) name(kind C.int, i int) string { return C.GoString(C.mj_id2name(m.c, kind, C.int(i))) }

// at returns element i of an array of T in the engine's memory.
func at[T, Element any](array *Element, i int) T {
	var t T
	return *(*T)(unsafe.Add(unsafe.Pointer(array), uintptr(i)*unsafe.Sizeof(t)))
}

// triple returns three numbers, the i-th of an array.
func triple(array *C.mjtNum, i int) [3]float64 { return at[[3]float64](array, i) }

// BodyOrientations returns the bodies' orientations in the world, xquat: 4 numbers (w, x, y, z) a body.
func (d *Data) BodyOrientations() []float64 { return view(d.d.xquat, 4*d.m.nbody) }

// AppliedForces returns forces and torques on the bodies' centers of mass, xfrc_applied, which act until they are
// changed or the state is reset: 6 numbers a body.
func (d *Data) AppliedForces() []float64 { return view(d.d.xfrc_applied, 6*d.m.nbody) }

// Contacts writes where bodies touch, and the force there, both in the world: 6 numbers a contact, as many as dst has
// room for. It returns how many it wrote.
func (d *Data) Contacts(dst []float64) int {
	return int(C.engine_contacts(d.c, (*C.double)(unsafe.SliceData(dst)), C.int(len(dst)/6)))
}
