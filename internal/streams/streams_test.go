package streams

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The recipe is part of every recorded run: a change here would make old runs impossible to repeat.
func TestKnownValues(t *testing.T) {
	rng := New(1, Episode, 2, 3)
	got := [3]uint64{rng.Uint64(), rng.Uint64(), rng.Uint64()}
	want := [3]uint64{0xf6216a081107ab22, 0xa48fe44c50899e9d, 0xe045a37f2d6209e9}
	if got != want {
		t.Errorf("stream of (1, Episode, 2, 3) starts %#x, want %#x", got, want)
	}
	if labels := [...]uint64{Episode, Policy, Critic, Sketch, Probe, Study, Evaluation,
		Segments}; labels != [...]uint64{1, 2, 3, 4, 5, 6, 7, 8} {
		t.Errorf("labels were renumbered: %v", labels)
	}
}

func TestSameKeySameStream(t *testing.T) {
	a, b := New(7, 8, 9), rand.New(rand.NewChaCha8(Key(7, 8, 9)))
	New(7, 8, 9).Uint64() // another copy's draws do not matter
	for range 1000 {
		if x, y := a.Float64(), b.Float64(); x != y {
			t.Fatalf("%v != %v", x, y)
		}
	}
}

func TestDistinctKeys(t *testing.T) {
	seen := map[[32]byte][]uint64{}
	for _, words := range [][]uint64{
		{0}, {0, 0}, {0, 0, 0}, {1}, {1, 0}, {0, 1}, {1, 2, 3}, {1, 3, 2}, {256}, {0, 256}, {1 << 56},
	} {
		key := Key(words[0], words[1:]...)
		if other, ok := seen[key]; ok {
			t.Errorf("%v and %v have the same key", words, other)
		}
		seen[key] = words
	}
}

// Neighbouring episodes' streams are uncorrelated: the sample correlation of n normal pairs has deviation
// 1/sqrt(n), and the draws are fixed by the keys, so this test cannot flicker.
func TestNeighboursUncorrelated(t *testing.T) {
	const n = 10_000
	a, b := New(1, Episode, 5, 6), New(1, Episode, 5, 7)
	var ab, aa, bb float64
	for range n {
		x, y := a.NormFloat64(), b.NormFloat64()
		ab, aa, bb = ab+x*y, aa+x*x, bb+y*y
	}
	if r := ab / math.Sqrt(aa*bb); math.Abs(r) > 4/math.Sqrt(n) {
		t.Errorf("correlation %v", r)
	}
}
