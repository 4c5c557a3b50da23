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
	for pattern := range strings.SplitSeq(runs, ",") {
		_, err := path.Match(pattern, "run")
		name := strings.Join(strings.FieldsFunc(pattern, func(c rune) bool { return strings.ContainsRune(patternRunes, c) }), "")
		if err == nil && runs != "" && (name != "" || pattern == "") { // more than wildcards
			err = proto.CheckRun(name)
		}
		if err != nil {
			return fmt.Errorf("run: %q: %w", pattern, err)
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
