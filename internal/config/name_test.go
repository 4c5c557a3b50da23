package config_test

import (
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/proto"
)

// A run's directory and name list the settings that differ from the preset, and no others.
func TestNames(t *testing.T) {
	for arguments, want := range map[string]string{
		"--env Swimmer-v5":                           "trpo-mc-s1",
		"--env Swimmer-v5 --preset best --gamma 0.9": "trpo-mc-s1_gamma=0.9",
		"--env Swimmer-v5 --preset paper":            "npg-uapg-s1_preset=paper",
		"--env Swimmer-v5 --initial-std 1abs":        "trpo-mc-s1_initial-std=1abs",
		"--env Swimmer-v2 --preset best":             "trpo-mc-s1_preset=best",
		"--env Swimmer-v2":                           "npg-uapg-s1",
		"--env Swimmer-v2 --seed 3 --iterations 5 --actors 2 --batch 15000 --rank 30": "npg-uapg-s3",
		"--env Swimmer-v2 --rank 45 --algorithm trpo --estimator mc --seed 2":         "trpo-mc-s2_rank=45",
		"--env Swimmer-v2 --gamma 0.99 --batch 2000":                                  "npg-uapg-s1_batch=2000_gamma=0.99",
		"--env Swimmer-v2 --noise learned --noise 0.5":                                "npg-uapg-s1_noise=0.5",
		"--env Swimmer-v2 --noise learned --hidden 32,16":                             "npg-uapg-s1_hidden=32x16_noise=learned",
		"--env Swimmer-v2 --targets gae --segment 32 --batch 2048":                    "npg-uapg-s1_batch=2048_segment=32_targets=gae",
		"--env Swimmer-v5 --batch 500":                                                "trpo-mc-s1_batch=500",
		"--env Swimmer-v2 --c2 1e-9 --bootstrap --targets gae":                        "npg-uapg-s1_targets=gae_bootstrap=true_c2=1.0e-09",
	} {
		settings, _, err := load(arguments, "")
		if err != nil {
			t.Fatalf("%s: %v", arguments, err)
		}
		if want := "runs/" + settings.Env + "/" + want; settings.RunDir != want {
			t.Errorf("%s: the run directory is %s, want %s", arguments, settings.RunDir, want)
		}
		if want := settings.Env + "/" + strings.ReplaceAll(want, ".", "-"); settings.Name() != want {
			t.Errorf("%s: the name is %s, want %s", arguments, settings.Name(), want)
		}
	}
}

// However many settings differ, and whatever free text they have, names are short, valid and different.
func TestNamesOfManySettings(t *testing.T) {
	inDirectory(t, nil)
	seen := map[string]string{}
	for _, more := range []string{
		"", "--from runs/a/b", "--from runs/a-b", "--from runs-a-b", "--from runs/a/b --gamma 0.5",
		"--gamma 0.51 --damping 0.123456789012345 --epsilon 2.123456789012345 --c1 0.333333333333333 --rank 17",
		"--gamma 0.51 --damping 0.123456789012345 --epsilon 2.123456789012345 --c1 0.333333333333333 --rank 18",
		"--gamma 0.51 --damping 0.123456789012345 --epsilon 2.123456789012345 --c1 0.333333333333334 --rank 18",
	} {
		settings, _, err := load(strings.TrimSpace("--env HumanoidStandup-v2 --algorithm vanilla --seed 18446744073709551615 "+more), "")
		if err != nil {
			t.Fatalf("%s: %v", more, err)
		}
		if err := proto.CheckRun(settings.Name()); err != nil {
			t.Errorf("%s: %v", more, err)
		}
		if other, ok := seen[settings.RunDir]; ok {
			t.Errorf("%q and %q have the same run directory, %s", more, other, settings.RunDir)
		}
		seen[settings.RunDir] = more
		t.Log(settings.RunDir)
	}
}
