package critic

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/dbqpg/dbqpg/internal/stats"
)

// Trajectories are a batch's episodes, one after another.
type Trajectories struct {
	Rewards []float64 // n
	Lengths []int     // steps of each episode, n in total
	// Bootstrap is the value with which an episode continues beyond its last step:
	// V(s_T) if the time limit ended it, 0 if the task did. nil treats every end as
	// terminal, as the paper does.
	Bootstrap []float64
}

// Returns returns the discounted sums of future rewards, of length n:
//
//	R_t = r_t + gamma R_{t+1}.
func (e Trajectories) Returns(gamma float64) []float64 {
	returns := make([]float64, len(e.Rewards))
	e.episodes(func(start, end int, next float64) {
		for t := end - 1; t >= start; t-- {
			next = e.Rewards[t] + gamma*next
			returns[t] = next
		}
	})
	return returns
}

// Advantages returns the generalised advantage estimates (Schulman et al., 2016) for
// the values V(s_t), of length n:
//
//	A_t = delta_t + gamma lambda A_{t+1},  delta_t = r_t + gamma V(s_{t+1}) - V(s_t).
func (e Trajectories) Advantages(values []float64, gamma, lambda float64) []float64 {
	if len(values) != len(e.Rewards) {
		panic(fmt.Sprintf("critic: %d values for %d rewards", len(values), len(e.Rewards)))
	}
	advantages := make([]float64, len(e.Rewards))
	e.episodes(func(start, end int, bootstrap float64) {
		next, advantage := bootstrap, 0.0
		for t := end - 1; t >= start; t-- {
			advantage = e.Rewards[t] + gamma*next - values[t] + gamma*lambda*advantage
			advantages[t] = advantage
			next = values[t]
		}
	})
	return advantages
}

// LambdaReturns returns the lambda-returns for the values V(s_t), of length n: averages, weighted by powers of lambda,
// of the returns over 1, 2, ... steps that continue with the value of the state reached. They are
//
//	V(s_t) + A_t
//
// with the generalised advantage estimates A_t.
func (e Trajectories) LambdaReturns(values []float64, gamma, lambda float64) []float64 {
	returns := e.Advantages(values, gamma, lambda)
	floats.Add(returns, values)
	return returns
}

// episodes visits each episode's steps [start, end) and the value that follows.
func (e Trajectories) episodes(visit func(start, end int, bootstrap float64)) {
	if e.Bootstrap != nil && len(e.Bootstrap) != len(e.Lengths) {
		panic(fmt.Sprintf("critic: %d continuations of %d episodes", len(e.Bootstrap), len(e.Lengths)))
	}
	end := 0
	for i, length := range e.Lengths {
		bootstrap := 0.0
		if e.Bootstrap != nil {
			bootstrap = e.Bootstrap[i]
		}
		start := end
		end += length
		if length < 0 || end > len(e.Rewards) {
			break
		}
		visit(start, end, bootstrap)
	}
	if end != len(e.Rewards) {
		panic(fmt.Sprintf("critic: episodes of lengths %v and %d rewards", e.Lengths, len(e.Rewards)))
	}
}

// Standardize shifts and scales x to mean 0 and standard deviation 1 (with n-1). If all
// elements are equal they become 0.
func Standardize(x []float64) {
	mean, deviation := stats.MeanStdDev(x)
	for i, v := range x {
		x[i] = v - mean
		if deviation > 0 {
			x[i] /= deviation
		}
	}
}

// ExplainedVariance returns 1 - Var(returns - values)/Var(returns): 1 for values that
// predict the returns up to a constant, 0 for a constant, negative for worse. It is
// NaN if the returns do not vary.
func ExplainedVariance(values, returns []float64) float64 {
	errors := floats.SubTo(make([]float64, len(returns)), returns, values)
	return 1 - math.Pow(stats.StdDev(errors)/stats.StdDev(returns), 2)
}

// Folds divides the steps into so many ranges of whole episodes, one after another and of about
// as many episodes, or into the episodes if there are no more of them.
func (e Trajectories) Folds(most int) (folds [][2]int) {
	count, end := min(most, len(e.Lengths)), 0
	for k := range count {
		fold := [2]int{end, end}
		for _, length := range e.Lengths[k*len(e.Lengths)/count : (k+1)*len(e.Lengths)/count] {
			fold[1] += length
		}
		end = fold[1]
		folds = append(folds, fold)
	}
	return folds
}
