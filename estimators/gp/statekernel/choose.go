package statekernel

import (
	"fmt"
	"math"
	"slices"

	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/gp/kernels"
)

// rough is the rank of the grid's matrix from which the interpolated columns are not formed.
// At n = 15,000 and 10 features (BenchmarkFactor) both methods take the same time at rank 18.
const rough = 20

// MaxColumns is the maximum number of columns of a factor on a grid. With more, the closed
// form's matrices (columns × columns) would take gigabytes and minutes.
const MaxColumns = 8192

// Columns returns the number of columns on a grid for a number of features, at the initial
// hyperparameters, log 2. A rougher kernel has more, up to 128 per feature.
func Columns(base *kernels.Kernel, features int) int {
	k := Kernel{Base: base, Hyper: slices.Repeat([]float64{math.Ln2}, len(base.Hyperparameters()))}
	return features * spectrumOf(k).rank()
}

// TooManyColumnsError reports that a state kernel has more than MaxColumns columns.
type TooManyColumnsError struct{ Features, Columns int }

// Error implements error.
func (e *TooManyColumnsError) Error() string {
	return fmt.Sprintf("gp: on %d features the state kernel has %d columns, and the closed form takes at most %d: use "+
		"inducing points, conjugate gradients, or a smoother base kernel",
		e.Features, e.Columns, MaxColumns)
}

// Factor returns the factor for scaled features (n × d), allocated in s. The samples named
// by inducing are the inducing points; if it is nil, the factor is that of structured
// kernel interpolation. The error is a [*TooManyColumnsError] without inducing points, and
// a [*linop.NotFiniteError] with them.
func (k Kernel) Factor(s *compute.Scope, scaled compute.Block, inducing []int) (Factor, error) {
	if inducing != nil {
		return newInducingFactor(s, k, scaled, inducing)
	}
	spectrum := spectrumOf(k)
	if columns := scaled.Cols * spectrum.rank(); columns > MaxColumns {
		return nil, &TooManyColumnsError{Features: scaled.Cols, Columns: columns}
	}
	ski := interpolated{
		backend: s.Backend(), grid: grid(), scaled: scaled, spectrum: spectrum,
		table: upload(s, spectrum.factor(k.Scale)),
	}
	if spectrum.rank() >= rough {
		return newSparseFactor(ski), nil
	}
	return newDenseFactor(s, ski), nil
}
