package state_test

import (
	"errors"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/learner/state"
)

// fields are some of each kind.
type fields struct {
	array    []float64
	mean     float64
	variance float64
	steps    int
	bounds   []float64
	rows     []float64
	inner    *fields
}

func (f *fields) Visit(v *state.Visitor) {
	v.Array("array", f.array, state.NotNegative)
	v.Numbers("moments", state.Number{To: &f.mean}, state.Number{To: &f.variance, Check: state.NotNegative})
	v.Int("steps", &f.steps)
	v.Constant("bounds", f.bounds)
	v.Optional("rows", f.rows, func(x []float64) (func(), error) {
		if len(x)%2 != 0 {
			return nil, errors.New("odd")
		}
		return func() { f.rows = x }, nil
	})
	if f.inner != nil {
		v.Part("inner", f.inner.Visit)
	}
}

func blank() *fields {
	return &fields{array: make([]float64, 2), bounds: []float64{math.Inf(-1), 1},
		inner: &fields{array: make([]float64, 1)}}
}

func saved() state.Arrays {
	f := blank()
	f.array[1], f.mean, f.variance, f.steps, f.rows, f.inner.steps = 3, -4, 5, 6, []float64{7, 8}, 9
	return state.Save(f.Visit)
}

func TestRestoreIsTheInverseOfSave(t *testing.T) {
	want := saved()
	names := []string{"array", "bounds", "inner.array", "inner.bounds", "inner.moments", "inner.steps",
		"moments", "rows", "steps"}
	if got := slices.Sorted(maps.Keys(want)); !slices.Equal(got, names) {
		t.Errorf("saved %v, want %v", got, names)
	}
	f, others := blank(), maps.Clone(want)
	others["of another"] = []float64{math.NaN()}
	if err := state.Restore(others, f.Visit); err != nil {
		t.Fatal(err)
	}
	if got := state.Save(f.Visit); !reflect.DeepEqual(got, want) {
		t.Errorf("restored %v, want %v", got, want)
	}
	if got := want["inner.steps"]; !slices.Equal(got, []float64{9}) {
		t.Errorf("the part has %v steps", got)
	}
	f.array[1], f.inner.array[0] = 10, 10
	if want["array"][1] != 3 || want["inner.array"][0] != 0 {
		t.Error("the arrays are those of the fields, not copies")
	}
}

func TestRefusedArraysChangeNothing(t *testing.T) {
	before := state.Save(blank().Visit)
	for name, bad := range map[string][][]float64{
		"array":   {nil, {1}, {1, -1}, {math.NaN(), 1}, {1, math.Inf(1)}},
		"moments": {nil, {1, -1}, {math.NaN(), 1}, {1, 2, 3}},
		"steps":   {nil, {-1}, {1.5}, {math.Inf(1)}, {1e300}}, "bounds": {nil, {0, 1}}, "rows": {{1}, {1, math.NaN()}},
		"inner.steps": {nil, {-1}}, "inner.array": {nil, {}},
	} {
		for _, x := range bad {
			f, arrays := blank(), saved()
			if arrays[name] = x; x == nil {
				delete(arrays, name)
			}
			if err := state.Restore(arrays, f.Visit); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s is %v: error %v", name, x, err)
			}
			if got := state.Save(f.Visit); !reflect.DeepEqual(got, before) {
				t.Errorf("%s is %v: changed to %v", name, x, got)
			}
		}
	}
}
