package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/dbqpg/dbqpg/sim"
)

// InitialStd is the policy's initial standard deviation in each component of the action: Scale times half the component's
// range, (high - low)/2; or, if Absolute or the component has no finite range, Scale in the action's own units.
type InitialStd struct {
	Scale    float64
	Absolute bool
}

// absoluteSuffix marks a standard deviation in the action's own units.
const absoluteSuffix = "abs"

// String returns the text that Set reads: "0.5", or "0.5abs" if it is absolute.
func (std InitialStd) String() string {
	if std.Absolute {
		return formatNumber(std.Scale) + absoluteSuffix
	}
	return formatNumber(std.Scale)
}

// Set implements pflag.Value.
func (std *InitialStd) Set(text string) error {
	digits, absolute := strings.CutSuffix(text, absoluteSuffix)
	scale, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return fmt.Errorf("%q is neither a number, such as 0.5, nor one in the action's own units, such as 0.5abs", text)
	}
	*std = InitialStd{scale, absolute}
	return nil
}

// Type implements pflag.Value.
func (std *InitialStd) Type() string { return "float[abs]" }

// Of returns the standard deviation of each component of the task's actions.
func (std InitialStd) Of(task sim.Spec) []float64 {
	all := make([]float64, task.ActionDim)
	for i := range all {
		all[i] = std.Scale
		half := task.High[i]/2 - task.Low[i]/2 // high - low could overflow
		if !std.Absolute && half > 0 && !math.IsInf(half, 1) {
			all[i] *= half
		}
	}
	return all
}
