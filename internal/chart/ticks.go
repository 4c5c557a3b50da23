package chart

import (
	"math"
	"strconv"

	"gonum.org/v1/plot"
)

// roundTicks labels the multiples of 1, 2 or 5 times a power of ten, some five of them.
type roundTicks struct{}

const someTicks = 5

// Ticks returns the labelled ticks, in order.
func (roundTicks) Ticks(low, high float64) []plot.Tick {
	span := high - low
	if !(span > 0) || math.IsInf(span, 0) {
		return []plot.Tick{{Value: low, Label: number(low, low)}}
	}
	power := math.Pow(10, math.Floor(math.Log10(span/someTicks)))
	step := 10 * power
	for _, factor := range []float64{1, 2, 5} {
		if span <= factor*power*someTicks*1.2 {
			step = factor * power
			break
		}
	}
	var ticks []plot.Tick
	for i := math.Ceil(low / step); i*step <= high; i++ {
		ticks = append(ticks, plot.Tick{Value: i * step, Label: number(i*step, max(-low, high))})
	}
	return ticks
}

// roundLogTicks labels the powers of ten, and 2 and 5 times these where there are few.
type roundLogTicks struct{}

// Ticks returns the labelled ticks, and minor ones between them, in order.
func (roundLogTicks) Ticks(low, high float64) []plot.Tick {
	var ticks []plot.Tick
	few := high < 100*low
	for power := math.Pow(10, math.Floor(math.Log10(low))); power <= high; power *= 10 {
		for factor := 1.0; factor < 10; factor++ {
			value := factor * power
			if value < low || value > high {
				continue
			}
			tick := plot.Tick{Value: value}
			if factor == 1 || few && (factor == 2 || factor == 5) {
				tick.Label = number(value, value)
			}
			ticks = append(ticks, tick)
		}
	}
	return ticks
}

// number formats a tick, in thousands or millions if the largest is; rounding errors around 0 are 0.
func number(x, largest float64) string {
	unit, suffix := 1.0, ""
	switch size := math.Abs(largest); {
	case size >= 1e6 && size < 1e9:
		unit, suffix = 1e6, "M"
	case size >= 1e4 && size < 1e6:
		unit, suffix = 1e3, "k"
	}
	if math.Abs(x) < 1e-9*math.Abs(largest) {
		return "0"
	}
	return strconv.FormatFloat(x/unit, 'g', 6, 64) + suffix
}
