package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/dbqpg/dbqpg/sim"
)

// InitialStd is the policy's initial standard deviation in each component of the action, Scale times its unit.
type InitialStd struct {
	Scale float64
	Unit  StdUnit
}

// StdUnit is the unit of an initial standard deviation, and the suffix of its text.
type StdUnit string

// The units. A component without a finite range has the action's own.
const (
	HalfRange   StdUnit = ""     // half of the component's range, (high - low)/2
	HalfOfNorm  StdUnit = "norm" // half of the component's range over the root of the number of components
	ActionsUnit StdUnit = "abs"  // the action's own
)

// String returns the text that Set reads, such as "0.5", "0.5norm" or "0.5abs".
func (std InitialStd) String() string { return formatNumber(std.Scale) + string(std.Unit) }

// Set implements pflag.Value.
func (std *InitialStd) Set(text string) error {
	unit := HalfRange
	for _, u := range []StdUnit{HalfOfNorm, ActionsUnit} {
		if strings.HasSuffix(text, string(u)) {
			unit = u
		}
	}
	scale, err := strconv.ParseFloat(strings.TrimSuffix(text, string(unit)), 64)
	if err != nil {
		return fmt.Errorf("%q is not a number, such as 0.5, with or without norm or abs behind it", text)
	}
	*std = InitialStd{scale, unit}
	return nil
}

// Type implements pflag.Value.
func (std *InitialStd) Type() string { return "float[norm|abs]" }

// Of returns the standard deviation of each component of the task's actions, nil for discrete ones.
func (std InitialStd) Of(task sim.Spec) []float64 {
	if task.Choices != nil {
		return nil
	}
	all := make([]float64, task.ActionDim)
	for i := range all {
		all[i] = std.Scale
		if std.Unit == HalfOfNorm {
			all[i] /= math.Sqrt(float64(len(all)))
		}
		half := task.High[i]/2 - task.Low[i]/2 // high - low could overflow
		if std.Unit != ActionsUnit && half > 0 && !math.IsInf(half, 1) {
			all[i] *= half
		}
	}
	return all
}
