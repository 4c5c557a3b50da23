package rollout

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/dbqpg/dbqpg/proto"
)

// patternRunes are what a pattern of path.Match has beyond the name of a run.
const patternRunes = "*?[]^"

// CheckRuns refuses what doesn't say which runs to play for: names and patterns as path.Match takes them, separated
// by commas; "" is all.
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

// accepts returns whether a run is one of those that [CheckRuns] has accepted.
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

// single reports whether the actor is to play for one run alone, whose name is given.
func single(runs string) bool { return runs != "" && !strings.ContainsAny(runs, ","+patternRunes) }
