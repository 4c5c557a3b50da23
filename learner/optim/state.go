package optim

import (
	"fmt"
	"math"
	"strings"
)

// State is an optimiser's state as named arrays, for checkpoints.
type State map[string][]float64

// Join adds another state's arrays, named part.name.
func (s State) Join(part string, other State) {
	for name, x := range other {
		s[part+"."+name] = x
	}
}

// Part returns the state that was joined under a name.
func (s State) Part(part string) State {
	p := State{}
	for name, x := range s {
		if rest, ok := strings.CutPrefix(name, part+"."); ok {
			p[rest] = x
		}
	}
	return p
}

// Array returns the named array, which must have n elements, all finite.
func (s State) Array(name string, n int) ([]float64, error) {
	x, ok := s[name]
	if !ok {
		return nil, fmt.Errorf("the state has no array %q", name)
	}
	if len(x) != n {
		return nil, fmt.Errorf("the state's array %q has %d elements, want %d", name, len(x), n)
	}
	for i, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("element %d of the state's array %q is %v", i, name, v)
		}
	}
	return x, nil
}
