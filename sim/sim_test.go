package sim

import (
	"errors"
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

func TestUnknownTask(t *testing.T) {
	if _, err := Lookup("Swimer-v2"); !errors.Is(err, ErrUnknownTask) || !strings.Contains(err.Error(), `"Swimer-v2"`) {
		t.Errorf("error %v", err)
	}
}
