package evaluate

import (
	"math"
	"slices"

	"github.com/dbqpg/dbqpg/internal/stats"
	"github.com/dbqpg/dbqpg/learner/checkpoint"
	"github.com/dbqpg/dbqpg/learner/progress"
)

// Summary is what a number of episodes tell.
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

// Summarize summarizes at least two episodes.
func Summarize(episodes []Episode) Summary {
	returns, lengths := make([]float64, len(episodes)), make([]int, len(episodes))
	steps := 0
	for i, e := range episodes {
		returns[i], lengths[i] = e.Return, e.Length
		steps += e.Length
	}
	s := Summary{
		IQM: stats.IQM(returns), Min: slices.Min(returns), Max: slices.Max(returns),
		LengthMean: float64(steps) / float64(len(episodes)), LengthMin: slices.Min(lengths), LengthMax: slices.Max(lengths),
	}
	mean, deviation := stats.MeanStdDev(returns)
	s.Mean, s.StandardError = mean, deviation/math.Sqrt(float64(len(returns)))
	return s
}

// Row returns the row of evaluations.csv for a checkpoint's policy that has played so many episodes with each action.
func Row(at checkpoint.Counters, episodes int, mean, sampled Summary) progress.Evaluation {
	return progress.Evaluation{
		Iteration: at.Iteration, Steps: at.Steps, Episodes: uint64(episodes),
		MeanReturn: mean.Mean, MeanStandardError: mean.StandardError, MeanIQM: mean.IQM,
		MeanMin: mean.Min, MeanMax: mean.Max, MeanLength: mean.LengthMean,
		SampledReturn: sampled.Mean, SampledStandardError: sampled.StandardError, SampledIQM: sampled.IQM,
		SampledMin: sampled.Min, SampledMax: sampled.Max, SampledLength: sampled.LengthMean,
	}
}
