package config

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// maxDifferences is the maximum length of the list of settings in a run's name.
const maxDifferences = 60

// Name returns the run's name, which distinguishes it from runs with other results:
//
//	TASK/ALGORITHM-ESTIMATOR-sSEED_SETTING=VALUE_SETTING=VALUE...
//
// It lists, in the order of config.yaml, the preset if it is not the task's default, and the settings that determine
// the results and differ from the preset. A list that is too long or has free text ends with a hash of all of it. Names
// consist of the characters of a run on the bus: others, such as decimal points, become "-".
func (s *Settings) Name() string { return s.base() + clean(s.list(), "") }

// DefaultRunDir returns the run directory if none is given: runs/NAME in the working directory, where NAME is the run's
// name with decimal points.
func (s *Settings) DefaultRunDir() string {
	return filepath.Join("runs", filepath.FromSlash(s.base()+s.list()))
}

func (s *Settings) list() string {
	return s.differences(forTask(s.Env, s.Algorithm, s.Estimator, s.Preset))
}

func (s *Settings) base() string {
	return fmt.Sprintf("%s/%s-%s-s%d", s.Env, s.Algorithm, s.Estimator, s.Seed)
}

// differences returns the list of settings in the run's name, given its preset's.
func (s *Settings) differences(preset Settings) string {
	preset.TaskFile = s.TaskFile // the task's name stands for it
	preset.Seed, preset.Preset = s.Seed, DefaultPreset(s.Env)
	defaults := rows(&preset.Hyperparameters)
	var list, exact strings.Builder
	hashed := false
	for i, row := range rows(&s.Hyperparameters) {
		text := row.String()
		if text == defaults[i].String() {
			continue
		}
		fmt.Fprintf(&exact, "%s: %q\n", row.Name, text)
		item := "_" + row.flag() + "=" + clean(strings.ReplaceAll(strings.Trim(text, "[]"), ", ", "x"), ".+")
		fits := list.Len()+len(item) <= maxDifferences
		if fits {
			list.WriteString(item)
		}
		hashed = hashed || !fits || row.Kind == kindText // clean may have changed free text
	}
	if hashed {
		sum := sha256.Sum256([]byte(exact.String()))
		fmt.Fprintf(&list, "_%x", sum[:4])
	}
	return list.String()
}

// clean replaces the characters of a text other than letters, digits, "-", "_", "=" and those allowed by "-".
func clean(text, allowed string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			slices.Contains([]rune("-_="+allowed), c) {
			return c
		}
		return '-'
	}, text)
}
