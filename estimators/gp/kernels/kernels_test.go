package kernels

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// closed are the kernels in plain Go: the value at r = |x - x'| (for linear at x x')
// under the hyperparameters h, and the derivatives in them, worked out by hand.
var closed = map[string]func(r float64, h []float64) (value float64, gradient []float64){
	"rbf": func(r float64, h []float64) (float64, []float64) {
		u := r / h[0]
		k := math.Exp(-u * u / 2)
		return k, []float64{k * u * u / h[0]}
	},
	"matern12": func(r float64, h []float64) (float64, []float64) {
		u := r / h[0]
		return math.Exp(-u), []float64{math.Exp(-u) * u / h[0]}
	},
	"matern32": func(r float64, h []float64) (float64, []float64) {
		u := math.Sqrt(3) * r / h[0]
		return (1 + u) * math.Exp(-u), []float64{u * u * math.Exp(-u) / h[0]}
	},
	"matern52": func(r float64, h []float64) (float64, []float64) {
		u := math.Sqrt(5) * r / h[0]
		return (1 + u + u*u/3) * math.Exp(-u), []float64{u * u * (1 + u) / 3 * math.Exp(-u) / h[0]}
	},
	"rational-quadratic": func(r float64, h []float64) (float64, []float64) {
		u, a := r/h[0], h[1]
		w := u * u / (2 * a)
		k := math.Pow(1+w, -a)
		return k, []float64{k / (1 + w) * u * u / h[0], k * (w/(1+w) - math.Log1p(w))}
	},
	"periodic": func(r float64, h []float64) (float64, []float64) {
		l, p := h[0], h[1]
		s := math.Sin(math.Pi * r / p)
		k := math.Exp(-2 * s * s / l)
		return k, []float64{k * 2 * s * s / (l * l), k * 2 / l * math.Sin(2*math.Pi*r/p) * math.Pi * r / (p * p)}
	},
	"cosine": func(r float64, h []float64) (float64, []float64) {
		x := math.Pi * r / h[0]
		return math.Cos(x), []float64{math.Sin(x) * x / h[0]}
	},
	"piecewise-polynomial": func(r float64, h []float64) (float64, []float64) {
		u := r / h[0]
		if u >= 1 {
			return 0, []float64{0}
		}
		return math.Pow(1-u, 5) * (1 + 5*u + 8*u*u), []float64{14 * u * u * (1 + 4*u) * math.Pow(1-u, 4) / h[0]}
	},
	"linear": func(product float64, _ []float64) (float64, []float64) { return product, nil },
}

// settings are values of the hyperparameters: what learning starts from, softplus(0),
// a short and a long one, a kernel of several given all pairs of them.
var settings = []float64{math.Ln2, 0.06, 1.7}

// each calls f for each kernel under each setting.
func each(t *testing.T, f func(t *testing.T, k *Kernel, hyper []float64)) {
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			k := lookup(t, name)
			var set func(hyper []float64)
			set = func(hyper []float64) {
				if len(hyper) == len(k.Hyperparameters()) {
					f(t, k, hyper)
					return
				}
				for _, x := range settings {
					set(append(slices.Clone(hyper), x))
				}
			}
			set(nil)
		})
	}
}

// lookup finds the kernel or fails the test.
func lookup(t testing.TB, name string) *Kernel {
	t.Helper()
	k, err := Lookup(name)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// grid returns the line that features are interpolated on.
func grid() []float64 {
	points := make([]float64, 128)
	for i := range points {
		points[i] = -0.95 - 1.9/125 + float64(i)*(1.9/125)
	}
	return points
}

// scattered returns points in no particular order, two of them equal, one 0.
func scattered(n int) []float64 {
	rng := rand.New(rand.NewPCG(1, 2))
	points := make([]float64, n)
	for i := range points {
		points[i] = 2*rng.Float64() - 1
	}
	points[n-1], points[n-2] = points[0], 0
	return points
}

// wantNear fails unless got is want up to 1e-12 of the greatest of them, or of 1: waves
// far from 0, and their slopes most of all, lose digits to the rounding of the distance.
func wantNear(t *testing.T, what string, hyper, got, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s under %v: %d numbers, want %d", what, hyper, len(got), len(want))
	}
	scale := 1.0
	for _, x := range want {
		scale = math.Max(scale, math.Abs(x))
	}
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= 1e-12*scale) {
			t.Fatalf("%s under %v: number %d is %.17g, want %.17g", what, hyper, i, got[i], want[i])
		}
	}
}

// elements returns the elements of a matrix, row by row.
func elements(m *mat.SymDense) []float64 { return mat.DenseCopyOf(m).RawMatrix().Data }

// Elements of the matrices over the usual grid, over scattered points, and over as many
// as take several runs are those of the closed form, and so are their derivatives.
func TestMatrixAgainstClosedForm(t *testing.T) {
	each(t, func(t *testing.T, k *Kernel, hyper []float64) {
		for _, points := range [][]float64{grid(), scattered(20), scattered(95), {0.3}, {0.3, 0.3}, {0.5, -0.2}} {
			value, gradient := k.Matrix(points, hyper)
			if n := value.SymmetricDim(); n != len(points) || len(gradient) != len(hyper) {
				t.Fatalf("%d points under %v: %d rows, %d derivatives", len(points), hyper, n, len(gradient))
			}
			var wantValue []float64
			wantGradient := make([][]float64, len(hyper))
			for _, x := range points {
				for _, y := range points {
					of := math.Abs(x - y)
					if !k.Stationary() {
						of = x * y
					}
					v, g := closed[k.Name()](of, hyper)
					wantValue = append(wantValue, v)
					for j := range g {
						wantGradient[j] = append(wantGradient[j], g[j])
					}
				}
			}
			wantNear(t, "value", hyper, elements(value), wantValue)
			for j, name := range k.Hyperparameters() {
				wantNear(t, "derivative in "+name, hyper, elements(gradient[j]), wantGradient[j])
			}
		}
	})
}

// A value does not depend on which others it is evaluated with, and distance 0 is like any
// other.
func TestValuesDoNotDependOnTheirNeighbours(t *testing.T) {
	each(t, func(t *testing.T, k *Kernel, hyper []float64) {
		points := grid()
		value, gradient := k.Matrix(points, hyper)
		if k.Stationary() {
			if value.At(0, 0) != 1 {
				t.Errorf("value at distance 0 under %v is %g, want 1", hyper, value.At(0, 0))
			}
			for j, name := range k.Hyperparameters() {
				if d := gradient[j].At(0, 0); d != 0 {
					t.Errorf("derivative in %s at distance 0 under %v is %g, want 0", name, hyper, d)
				}
			}
		}
		for i := 1; i < len(points); i += 9 {
			alone, slope := k.Matrix([]float64{points[0], points[i]}, hyper)
			if alone.At(0, 1) != value.At(0, i) {
				t.Errorf("value at %g and %g under %v: %g with others, %g alone", points[0], points[i], hyper,
					value.At(0, i), alone.At(0, 1))
			}
			for j := range gradient {
				if slope[j].At(0, 1) != gradient[j].At(0, i) {
					t.Errorf("derivative at %g and %g under %v: %g with others, %g alone", points[0], points[i], hyper,
						gradient[j].At(0, i), slope[j].At(0, 1))
				}
			}
		}
	})
}

// column returns a stationary kernel at the distances r.
func column(k *Kernel, hyper []float64, r ...float64) []float64 {
	value, _ := k.Matrix(append([]float64{0}, r...), hyper)
	return value.RawSymmetric().Data[1 : 1+len(r)]
}

// Derivatives by central differences of the kernel's own values: what a kernel without a
// closed form would be checked by.
func TestGradientByFiniteDifferences(t *testing.T) {
	each(t, func(t *testing.T, k *Kernel, hyper []float64) {
		_, gradient := k.Matrix(grid(), hyper)
		for j, name := range k.Hyperparameters() {
			h := 1e-6 * hyper[j]
			at := func(x float64) *mat.SymDense {
				moved := slices.Clone(hyper)
				moved[j] = x
				value, _ := k.Matrix(grid(), moved)
				return value
			}
			up, down := at(hyper[j]+h), at(hyper[j]-h)
			largest := mat.Norm(gradient[j], math.Inf(1))
			var difference mat.Dense
			difference.Sub(up, down)
			difference.Scale(1/(2*h), &difference)
			difference.Sub(&difference, gradient[j])
			if off := mat.Norm(&difference, math.Inf(1)); !(off <= 1e-6*largest) {
				t.Errorf("derivative in %s under %v is off by %g of %g", name, hyper, off, largest)
			}
		}
	})
}

// A covariance has no negative eigenvalues, here those of the grid's matrix.
func TestPositiveSemidefinite(t *testing.T) {
	each(t, func(t *testing.T, k *Kernel, hyper []float64) {
		value, _ := k.Matrix(grid(), hyper)
		var eigen mat.EigenSym
		if !eigen.Factorize(value, false) {
			t.Fatal("no eigenvalues")
		}
		values := eigen.Values(nil)
		if least, largest := values[0], values[len(values)-1]; !(least >= -1e-13*largest) {
			t.Errorf("eigenvalues under %v from %g to %g", hyper, least, largest)
		}
	})
}

// The page for users has a row for every kernel, in the table's order, and the rank it
// gives is that of the grid's matrix at the start of learning.
func TestPageForUsers(t *testing.T) {
	page, err := os.ReadFile("../../../docs/kernels.md")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(.+?)` \\|.* (\\d+) \\| [^|]* \\|$").FindAllStringSubmatch(
		string(page), -1) {
		names = append(names, row[1])
		k := lookup(t, row[1])
		value, _ := k.Matrix(grid(), slices.Repeat([]float64{math.Ln2}, len(k.hyper)))
		var eigen mat.EigenSym
		if !eigen.Factorize(value, false) {
			t.Fatal("no eigenvalues")
		}
		rank, values := 0, eigen.Values(nil)
		for _, x := range values {
			if x > 1e-12*values[len(values)-1] {
				rank++
			}
		}
		if strconv.Itoa(rank) != row[2] {
			t.Errorf("%s has rank %d, by the page %s", k, rank, row[2])
		}
	}
	if !slices.Equal(names, Names()) {
		t.Errorf("the page has %v, want %v", names, Names())
	}
}

// The limits that relate the kernels to each other.
func TestLimits(t *testing.T) {
	grid := grid()[64:]
	gaussian := column(lookup(t, "rbf"), []float64{0.5}, grid...)
	for i, x := range column(lookup(t, "rational-quadratic"), []float64{0.5, 1e9}, grid...) {
		if math.Abs(x-gaussian[i]) > 1e-7 {
			t.Errorf("rational-quadratic of infinite alpha at %g is %g, rbf %g", grid[i], x, gaussian[i])
		}
	}
	for i, x := range column(lookup(t, "piecewise-polynomial"), []float64{0.25}, grid...) {
		if outside := grid[i] >= 0.25; outside != (x == 0) {
			t.Errorf("piecewise-polynomial of support 0.25 at %g is %g", grid[i], x)
		}
	}
	for _, c := range []struct {
		name   string
		hyper  []float64
		period float64
	}{{"periodic", []float64{0.4, 0.3}, 0.3}, {"cosine", []float64{0.3}, 0.6}} {
		k := lookup(t, c.name)
		for _, r := range grid {
			values := column(k, c.hyper, r, r+c.period)
			wantNear(t, c.name+" a period on", c.hyper, values[1:], values[:1])
		}
	}
}

// The same numbers whatever was computed before, and between: by many goroutines at once.
func TestConcurrentCalls(t *testing.T) {
	type answer struct {
		value    *mat.SymDense
		gradient []*mat.SymDense
	}
	ask := func(name string, at int) answer {
		k := lookup(t, name)
		hyper := make([]float64, len(k.Hyperparameters()))
		for j := range hyper {
			hyper[j] = settings[(at+j)%len(settings)]
		}
		points := grid()
		if at%3 == 0 {
			points = scattered(17 + at)
		}
		value, gradient := k.Matrix(points, hyper)
		return answer{value, gradient}
	}
	const questions = 3
	want := map[string][]answer{}
	for _, k := range table {
		k.programs = nil // so that they are compiled at once, too
		for at := range questions {
			want[k.name] = append(want[k.name], ask(k.name, at))
		}
		k.programs = nil
	}
	var all sync.WaitGroup
	for g := range 6 {
		all.Go(func() {
			for i := range 2 * len(table) {
				name, at := table[(i+g)%len(table)].name, (i+3*g)%questions
				if got := ask(name, at); !reflect.DeepEqual(got, want[name][at]) {
					t.Errorf("question %d to %s, goroutine %d: another answer than alone", at, name, g)
				}
			}
		})
	}
	all.Wait()
}

// The same numbers, to the last bit, from every compilation: the order of a sum of
// terms must not depend on chance.
func TestCompilationsAgree(t *testing.T) {
	for _, k := range table {
		hyper := settings[:len(k.hyper)]
		wantValue, wantGradient := k.Matrix(grid(), hyper)
		for range 8 {
			lock.Lock()
			k.programs = nil
			lock.Unlock()
			if value, gradient := k.Matrix(grid(), hyper); !reflect.DeepEqual(value, wantValue) ||
				!reflect.DeepEqual(gradient, wantGradient) {
				t.Errorf("%s: another answer after compiling again", k)
			}
		}
	}
}

func TestLookup(t *testing.T) {
	names := Names()
	if names[0] != "rbf" || Default() != lookup(t, "rbf") || len(names) != 9 || len(closed) != len(names) {
		t.Errorf("kernels %v, closed forms of %d", names, len(closed))
	}
	for i, name := range names {
		k := lookup(t, name)
		if k.Name() != name || k.String() != name || slices.Contains(names[:i], name) {
			t.Errorf("Lookup(%q) is %q", name, k.Name())
		}
		if k.Stationary() != (name != "linear") {
			t.Errorf("%s: stationary is %v", name, k.Stationary())
		}
		hyper := k.Hyperparameters()
		for j, h := range hyper {
			if slices.Contains(hyper[:j], h) {
				t.Errorf("%s has two hyperparameters %s", name, h)
			}
			hyper[j] = "spoiled"
		}
		if slices.Contains(k.Hyperparameters(), "spoiled") {
			t.Errorf("%s shares the names of its hyperparameters", name)
		}
	}
	for _, wrong := range []string{"RBF", "matern-52", ""} {
		k, err := Lookup(wrong)
		var unknown *UnknownError
		if k != nil || !errors.As(err, &unknown) || unknown.Name != wrong {
			t.Errorf("Lookup(%q) = %v, %v; want an error that names it", wrong, k, err)
			continue
		}
		for _, name := range names {
			if !strings.Contains(err.Error(), name) {
				t.Errorf("%v: does not name %s", err, name)
			}
		}
	}
}

// Mistakes in a call panic with what is wrong.
func TestBadArguments(t *testing.T) {
	gaussian, two, line := lookup(t, "rbf"), lookup(t, "periodic"), lookup(t, "linear")
	for want, call := range map[string]func(){
		"rbf: 0 hyperparameters, want 1":      func() { gaussian.Matrix(grid(), nil) },
		"periodic: 1 hyperparameters, want 2": func() { two.Matrix(grid(), []float64{1}) },
		"rbf: lengthscale is 0":               func() { gaussian.Matrix(grid(), []float64{0}) },
		"periodic: period is -1":              func() { two.Matrix(grid(), []float64{1, -1}) },
		"periodic: lengthscale is NaN":        func() { two.Matrix(grid(), []float64{math.NaN(), 1}) },
		"rbf: lengthscale is +Inf":            func() { gaussian.Matrix(grid(), []float64{math.Inf(1)}) },
		"rbf: no points":                      func() { gaussian.Matrix(nil, []float64{1}) },
		"rbf: point 1 is NaN":                 func() { gaussian.Matrix([]float64{0, math.NaN()}, []float64{1}) },
		"linear: point 0 is -Inf":             func() { line.Matrix([]float64{math.Inf(-1)}, nil) },
	} {
		func() {
			defer func() {
				if got, _ := recover().(string); !strings.Contains(got, want) {
					t.Errorf("panic %q, want %q", got, want)
				}
			}()
			call()
		}()
	}
}

// BenchmarkGrid measures the kernel's work in one step of learning: a matrix over the grid.
func BenchmarkGrid(b *testing.B) {
	for _, name := range Names() {
		k := lookup(b, name)
		if !k.Stationary() {
			continue
		}
		hyper := slices.Repeat([]float64{math.Ln2}, len(k.Hyperparameters()))
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				k.Matrix(grid(), hyper)
			}
		})
	}
}

// BenchmarkMatrix is a matrix that needs every pair of 128 points.
func BenchmarkMatrix(b *testing.B) {
	for _, name := range []string{"linear", "matern52"} {
		k := lookup(b, name)
		hyper := slices.Repeat([]float64{math.Ln2}, len(k.Hyperparameters()))
		points := scattered(128)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				k.Matrix(points, hyper)
			}
		})
	}
}

// BenchmarkPlain is matern52's column, value and derivative, written out.
func BenchmarkPlain(b *testing.B) {
	distances := grid()[64:]
	distances = append(distances, distances...)
	value, gradient := make([]float64, 128), make([]float64, 128)
	for b.Loop() {
		for i, r := range distances {
			u := math.Sqrt(5) * r / math.Ln2
			e := math.Exp(-u)
			value[i], gradient[i] = (1+u+u*u/3)*e, u*u*(1+u)/3*e/math.Ln2
		}
	}
}
