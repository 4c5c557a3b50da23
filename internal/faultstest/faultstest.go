// Package faultstest supports tests that kill, stall and disturb what they test. Each has a short form for every day
// and a long one, run by make soak; both print what they did and the seed that reproduces it.
package faultstest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

const (
	// SoakVariable in the environment asks for the long forms: 1 for all of their counts, 0.1 for a tenth.
	SoakVariable = "DBQPG_TEST_SOAK"
	// SeedVariable is the seed to use instead of a random one.
	SeedVariable = "DBQPG_TEST_SEED"
	// ReportVariable names a file that also receives the lines of Report.
	ReportVariable = "DBQPG_TEST_SOAK_REPORT"
)

// share returns the requested share of the long form, 0 for the short form.
func share() float64 {
	text := os.Getenv(SoakVariable)
	if text == "" {
		return 0
	}
	s, err := strconv.ParseFloat(text, 64)
	if err != nil || !(s > 0) || s > 1 {
		panic(fmt.Sprintf("%s=%s: must be above 0 and at most 1", SoakVariable, text))
	}
	return s
}

// Long reports whether the long form is requested.
func Long() bool { return share() > 0 }

// Count returns how often a test does something: the first number in its short form, the requested share of the other
// in its long form, but never less than in the short form.
func Count(short, long int) int {
	return max(short, int(math.Round(share()*float64(long))))
}

// Seed returns the seed from the environment, or a random one, and logs it.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed := rand.Uint64() >> 16
	if text := os.Getenv(SeedVariable); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", SeedVariable, err)
		}
	}
	t.Logf("seed %d: %s=%d does the same again", seed, SeedVariable, seed)
	return seed
}

// Rand returns the random numbers of a stream of a seed.
func Rand(seed, stream uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, stream)) }

// Report prints what a test did, in numbers, and whether it failed. Call it at the end of a test.
func Report(t testing.TB, format string, args ...any) {
	t.Helper()
	line := fmt.Sprintf(format, args...)
	t.Log(line)
	path := os.Getenv(ReportVariable)
	if path == "" {
		return
	}
	if t.Failed() {
		line = "FAILED; " + line
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := fmt.Fprintf(file, "%s\t%s\n", t.Name(), line); err != nil {
		t.Fatal(err)
	}
}
