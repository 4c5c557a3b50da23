package evaluate

import (
	"math"
	"slices"

	"github.com/dbqpg/dbqpg/internal/stats"
	"github.com/dbqpg/dbqpg/learner/runs"
)

// Summary summarises a number of episodes.
type Summary struct {
	Mean          float64 `json:"mean"`           // return
	StandardError float64 `json:"standard_error"` // of that mean
	IQM           float64 `json:"iqm"`            // interquartile mean of the returns
	Min           float64 `json:"min"`
	Max           float64 `json:"max"`
	LengthMean    float64 `json:"length_mean"`
	LengthMin     int     `json:"length_min"`
	LengthMax     int     `json:"length_max"`
}

// Summarize summarizes at least one episode; of one alone there is no standard error.
func Summarize(episodes []Episode) Summary {
	returns, lengths := make([]float64, len(episodes)), make([]int, len(episodes))
	steps := 0
	for i, e := range episodes {
		returns[i], lengths[i] = e.Return, e.Length
		steps += e.Length
	}
	s := Summary{
		IQM: stats.IQM(returns), Min: slices.Min(returns), Max: slices.Max(returns),
		LengthMean: float64(steps) / float64(len(episodes)),
		LengthMin:  slices.Min(lengths), LengthMax: slices.Max(lengths),
	}
	mean, deviation := stats.MeanStdDev(returns)
	s.Mean, s.StandardError = mean, deviation/math.Sqrt(float64(len(returns)))
	return s
}

// Row returns the row of evaluations.csv for a checkpoint's episodes with the mean action, and those with sampled
// actions, of which there may be none.
func Row(at runs.Counters, mean, sampled []Episode) runs.Evaluation {
	m, none := Summarize(mean), math.NaN()
	s := Summary{Mean: none, StandardError: none, IQM: none, Min: none, Max: none, LengthMean: none}
	if len(sampled) > 0 {
		s = Summarize(sampled)
	}
	return runs.Evaluation{
		Iteration: at.Iteration, Steps: at.Steps, Episodes: uint64(len(mean)),
		MeanReturn: m.Mean, MeanStandardError: m.StandardError, MeanIQM: m.IQM,
		MeanMin: m.Min, MeanMax: m.Max, MeanLength: m.LengthMean,
		SampledReturn: s.Mean, SampledStandardError: s.StandardError, SampledIQM: s.IQM,
		SampledMin: s.Min, SampledMax: s.Max, SampledLength: s.LengthMean,
	}
}
