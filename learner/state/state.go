// Package state saves numbers by name and restores them. A type with a state has one method,
//
//	func (a *Adam) Visit(v *state.Visitor)
//
// which visits each of its fields once, for both directions.
package state

import (
	"fmt"
	"math"
	"slices"
)

// Arrays are the numbers of a state, by name. Those of a part are named part.name.
type Arrays map[string][]float64

// Save returns a copy of all that a function visits.
func Save(visit func(*Visitor)) Arrays {
	v := &Visitor{arrays: Arrays{}}
	visit(v)
	return v.arrays
}

// Restore sets all that a function visits to a copy of the arrays. If an array is missing, has another length, or
// contains an impossible number, Restore returns an error that names it and sets nothing. It ignores other arrays.
func Restore(arrays Arrays, visit func(*Visitor)) error {
	v := &Visitor{arrays: arrays, restoring: true}
	visit(v)
	if v.err != nil {
		return v.err
	}
	for _, set := range v.set {
		set()
	}
	return nil
}

// Visitor saves the fields that it visits, or restores them.
type Visitor struct {
	arrays    Arrays
	prefix    string
	restoring bool
	set       []func() // the fields, once all arrays are checked
	err       error
}

// Part visits the fields of a part of the state.
func (v *Visitor) Part(name string, visit func(*Visitor)) {
	outer := v.prefix
	v.prefix += name + "."
	visit(v)
	v.prefix = outer
}

// Array visits an array of fixed length. Its elements are finite, and pass the check if there is one.
func (v *Visitor) Array(name string, x []float64, checks ...Check) {
	if !v.restoring {
		v.arrays[v.prefix+name] = slices.Clone(x)
		return
	}
	saved, ok := v.arrays[v.prefix+name]
	switch {
	case !ok:
		v.refuse("the state has no array %q", v.prefix+name)
	case len(saved) != len(x):
		v.refuse("the state's array %q has %d elements, want %d", v.prefix+name, len(saved), len(x))
	default:
		v.check(name, saved, append(checks, finite)...)
		v.set = append(v.set, func() { copy(x, saved) })
	}
}

// Numbers visits single numbers that are saved as one array. Each is finite, and passes its check if that is not nil.
func (v *Visitor) Numbers(name string, numbers ...Number) {
	x := make([]float64, len(numbers))
	for i, n := range numbers {
		x[i] = *n.To
	}
	v.Array(name, x)
	if saved := v.arrays[v.prefix+name]; v.restoring && len(saved) == len(x) {
		for i, n := range numbers {
			if n.Check != nil {
				v.check(name, saved[i:i+1], n.Check)
			}
		}
	}
	v.set = append(v.set, func() {
		for i, n := range numbers {
			*n.To = x[i]
		}
	})
}

// Number is a number of a state.
type Number struct {
	To    *float64
	Check Check
}

// Int visits a whole number that is not negative.
func (v *Visitor) Int(name string, n *int) {
	x := float64(*n)
	v.Numbers(name, Number{&x, Count})
	v.set = append(v.set, func() { *n = int(x) })
}

// Constant visits an array that is saved for others: a state with another one is refused.
func (v *Visitor) Constant(name string, x []float64) {
	if !v.restoring {
		v.arrays[v.prefix+name] = slices.Clone(x)
	} else if saved := v.arrays[v.prefix+name]; !slices.Equal(saved, x) {
		v.refuse("%s was %v and is now %v", v.prefix+name, saved, x)
	}
}

// Optional visits an array of any length, nil for none. If there is one to restore, parse takes it, all finite, and
// returns a function that sets the state to it.
func (v *Visitor) Optional(name string, x []float64, parse func(x []float64) (set func(), err error)) {
	saved, ok := v.arrays[v.prefix+name]
	switch {
	case !v.restoring && x != nil:
		v.arrays[v.prefix+name] = x
	case v.restoring && ok:
		v.check(name, saved, finite)
		set, err := parse(saved)
		if err != nil {
			v.refuse("the state's array %q: %w", v.prefix+name, err)
		}
		v.set = append(v.set, set)
	}
}

// Check reports whether a number is possible.
type Check func(x float64) bool

// NotNegative and Count are checks of variances, and of whole numbers of steps.
var (
	NotNegative Check = func(x float64) bool { return x >= 0 }
	Count       Check = func(x float64) bool { return x >= 0 && x <= 1<<53 && x == math.Trunc(x) }
	finite      Check = func(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
)

// check refuses the first element of an array that fails one of the checks.
func (v *Visitor) check(name string, x []float64, checks ...Check) {
	for i, value := range x {
		for _, possible := range checks {
			if !possible(value) {
				v.refuse("element %d of the state's array %q is %v", i, v.prefix+name, value)
				return
			}
		}
	}
}

// refuse keeps the first error.
func (v *Visitor) refuse(format string, args ...any) {
	if v.err == nil {
		v.err = fmt.Errorf(format, args...)
	}
}
