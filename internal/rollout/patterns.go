package rollout

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/dbqpg/dbqpg/proto"
)

// patternRunes are the special characters of path.Match, which run names do not contain.
const patternRunes = "*?[]^"

// CheckRuns validates a selection of runs: names and patterns of path.Match, separated by commas; "" means all
// runs.
func CheckRuns(runs string) error {
	if runs == "" {
		return nil
	}
	for pattern := range strings.SplitSeq(runs, ",") {
		if _, err := path.Match(pattern, "run"); err != nil {
			return fmt.Errorf("run: %q: %w", pattern, err)
		}
		name := strings.Map(func(c rune) rune {
			if strings.ContainsRune(patternRunes, c) {
				return -1
			}
			return c
		}, pattern)
		if name == "" && pattern != "" { // nothing but wildcards
			continue
		}
		if err := proto.CheckRun(name); err != nil {
			return err
		}
	}
	return nil
}

// accepts returns a predicate for the runs of a selection that [CheckRuns] has accepted.
func accepts(runs string) func(run string) bool {
	if runs == "" {
		return func(string) bool { return true }
	}
	patterns := strings.Split(runs, ",")
	return func(run string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool {
			matches, err := path.Match(pattern, run)
			return matches && err == nil
		})
	}
}

// single reports whether the selection is the name of a single run.
func single(runs string) bool { return runs != "" && !strings.ContainsAny(runs, ","+patternRunes) }
