package linop

import (
	"math"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

// history records the scalars of each step on the backend, and is read now and then. The
// result for a step does not depend on when it is read.
type history struct {
	Result    // up to the last step read
	scope     *compute.Scope
	tolerance float64
	columns   int
	record    compute.Block // 3 rows per step, 1 × columns each
	host      []float64     // copy of the record, up to the last step read
	looked    int           // number of steps read
	done      []bool        // by column, whether it has converged in those steps
}

// sums are the sums over n in one step, 1 × k each.
type sums struct {
	squares   compute.Block // r'r after the step
	rho       compute.Block // r'z after the step
	curvature compute.Block // p'A p of the next step's direction p
}

const sumsOfStep = 3

func newHistory(s *compute.Scope, c CG, columns int) *history {
	rows := sumsOfStep * (c.MaxIterations + 1)
	return &history{scope: s, tolerance: c.Tolerance, columns: columns, record: s.New(rows, columns),
		host: make([]float64, rows*columns), done: make([]bool, columns)}
}

// at returns the record of a step, where step 0 is the start.
func (h *history) at(step int) sums {
	row := sumsOfStep * step
	return sums{h.record.Row(row), h.record.Row(row + 1), h.record.Row(row + 2)}
}

// look reads the record up to r'r of a step, and reports whether all columns had converged
// by then. The error is a [*BreakdownError].
func (h *history) look(step int) (done bool, err error) {
	from, to := sumsOfStep*h.looked, sumsOfStep*step+1
	h.scope.Backend().Download(h.host[from*h.columns:to*h.columns], h.record.RowRange(from, to))
	if step == 0 {
		return h.measure(0)
	}
	for h.looked < step {
		if err := h.wantPositive("r'M r", h.looked, h.row(h.looked, 1)); err != nil {
			return false, err
		}
		if err := h.wantPositive("p'A p", h.looked+1, h.row(h.looked, 2)); err != nil {
			return false, err
		}
		h.looked++
		if done, err := h.measure(h.looked); done || err != nil {
			return done, err
		}
	}
	return false, nil
}

// row returns one of the sums of a step.
func (h *history) row(step, sum int) []float64 {
	i := (sumsOfStep*step + sum) * h.columns
	return h.host[i : i+h.columns]
}

// measure finds the columns that have converged after a step, and the largest residual.
func (h *history) measure(step int) (done bool, err error) {
	h.Iterations, h.Residual = step, 0
	for j, r2 := range h.row(step, 0) {
		b2 := h.row(0, 0)[j]
		relative := r2 / b2
		if b2 == 0 {
			relative = 0 // and x = 0 solves it
		}
		if math.IsNaN(relative) || math.IsInf(r2, 0) {
			return false, &BreakdownError{step, j, "the squared residual", r2}
		}
		h.done[j] = r2 <= h.tolerance*b2
		h.Residual = max(h.Residual, relative)
	}
	for _, d := range h.done {
		if !d {
			return false, nil
		}
	}
	return true, nil
}

// wantPositive checks a sum of each column that has not converged.
func (h *history) wantPositive(what string, step int, values []float64) error {
	for j, v := range values {
		if !h.done[j] && (!(v > 0) || math.IsInf(v, 0)) {
			return &BreakdownError{step, j, what, v}
		}
	}
	return nil
}
