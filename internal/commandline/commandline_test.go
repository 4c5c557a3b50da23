package commandline_test

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/dbqpg/dbqpg/internal/commandline"
)

// What is wrong with a flag is said in words, and no function of Go's library is named.
func TestExplain(t *testing.T) {
	for argument, want := range map[string]string{
		"--slots=x":      "--slots x: must be a whole number",
		"--slots=1e99":   "--slots 1e99: must be a whole number",
		"--timeout=5":    "--timeout 5: must be a duration such as 30s or 5m",
		"--seed=-1":      "--seed -1: must be a whole number from 0",
		"--noise=a":      "--noise a: must be a number",
		"--json=perhaps": "--json perhaps: must be true or false",
		"--sizes=1,a":    "--sizes 1,a: must be whole numbers, separated by commas",
		"--seeds=1-3":    "--seeds 1-3: must be whole numbers from 0, separated by commas",
		"--tiemout=1s":   "did you mean --timeout?",
		"-x":             "unknown shorthand flag",
	} {
		flags := pflag.NewFlagSet("x", pflag.ContinueOnError)
		flags.Int("slots", 1, "")
		flags.Duration("timeout", time.Second, "")
		flags.Uint64("seed", 0, "")
		flags.Float64("noise", 0, "")
		flags.Bool("json", false, "")
		flags.UintSlice("seeds", nil, "")
		flags.IntSlice("sizes", nil, "")
		err := commandline.Explain(flags, flags.Parse([]string{argument}))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "strconv") {
			t.Errorf("%s: %v, want %q", argument, err, want)
		}
	}
}

func TestQuote(t *testing.T) {
	for word, want := range map[string]string{
		"runs/a-1": "runs/a-1", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$HOME": "'$HOME'",
	} {
		if got := commandline.Quote(word); got != want {
			t.Errorf("%q becomes %s, want %s", word, got, want)
		}
	}
}
