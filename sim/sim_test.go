package sim

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestLookup(t *testing.T) {
	for _, want := range Tasks() {
		got, err := Lookup(want.Name)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v", want.Name, got, err)
		}
	}
	if !slices.IsSortedFunc(Tasks(), func(a, b Spec) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("tasks are not sorted by name")
	}
}

func TestSplitName(t *testing.T) {
	for name, want := range map[string]struct {
		family  string
		version int
	}{"Ant-v5": {"Ant", 5}, "my-very-own-v12": {"my-very-own", 12}, "pole": {"pole", 0},
		"my-very-own": {"my-very-own", 0}, "": {"", 0}} {
		if family, version := SplitName(name); family != want.family || version != want.version {
			t.Errorf("%q: %q, %d", name, family, version)
		}
	}
}

func TestCheckActions(t *testing.T) {
	discrete, nan := Spec{Name: "Coins", Choices: []int{2, 3}}, float32(math.NaN())
	for _, c := range []struct {
		spec    Spec
		actions []float32
		want    string
	}{
		{discrete, []float32{0, 2, 1, 0}, ""}, {Spec{}, []float32{-7.5, nan}, ""}, {discrete, nil, ""},
		{discrete, []float32{0, 2, 2, 0}, "element 0 of an action of Coins is 2, not an index below 2"},
		{discrete, []float32{0, 3}, "element 1 of an action of Coins is 3"}, {discrete, []float32{-1, 0}, "is -1"},
		{discrete, []float32{0.5, 0}, "is 0.5"}, {discrete, []float32{nan, 0}, "is NaN"},
	} {
		err := c.spec.CheckActions(c.actions)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error %v, want %q", c.actions, err, c.want)
		}
	}
}

func TestUnknownTask(t *testing.T) {
	if _, err := Lookup("Swimer-v2"); !errors.Is(err, ErrUnknownTask) || !strings.Contains(err.Error(), `"Swimer-v2"`) {
		t.Errorf("error %v", err)
	}
}
