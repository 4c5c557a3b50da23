package study

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// The page has what can be computed by hand of a made-up run, does not change when it is rebuilt, and is not made of too little.
func TestCalibration(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	rows := []string{"iteration,steps,coverage_50,coverage_90,held_out_log_likelihood,gaussian_log_likelihood"}
	for i := range 120 { // the first 20 do not count; the next 50 are at 0.40 and 0.90, the last 50 at 0.56 and 0.80
		first, second, held := 0.1, 0.2, -9.0
		switch {
		case i >= 70:
			first, second, held = 0.56, 0.8, -1
		case i >= 20:
			first, second, held = 0.4, 0.9, -1.5
		}
		rows = append(rows, fmt.Sprintf("%d,%d,%g,%g,%g,-2", i, 2000*(i+1), first, second, held))
	}
	path := filepath.Join(out, "data", "Hopper-v4", "trpo-uapg-best-s1.csv")
	write(t, path, strings.Join(rows, "\n")+"\n")
	mustStudy(t, "calibration", "--out", out)
	page := read(t, out, pageName)
	contains(t, page, "| Hopper-v4 | trpo-uapg-best-s1 | 20 to 119 | 48 % (40 to 56) | 85 % (80 to 90) | not recorded | not recorded | 0.75 (0.50 to 1.00) |",
		"within 5 points of their levels in 1 of 1 runs, those of the process's own normal distributions in 0 of the 0 in which they were recorded, and "+
			"the process is above the Gaussian in the mean of 1")
	pictures(t, filepath.Join(out, "calibration"))
	mustStudy(t, "calibration", "--out", out)
	if read(t, out, pageName) != page {
		t.Error("the page has changed")
	}

	// The normal distributions' coverage, where there is one, and but for a batch of which nothing is known.
	normal := []string{rows[0] + ",normal_coverage_50,normal_coverage_90"}
	for i, row := range rows[1:] {
		if i == 100 {
			row = "100,202000,,,,,,"
		} else {
			row += ",0.6,0.9"
		}
		normal = append(normal, row)
	}
	write(t, path, strings.Join(normal, "\n")+"\n")
	mustStudy(t, "calibration", "--out", out)
	contains(t, read(t, out, pageName), "| 85 % (80 to 90) | 60 % (60 to 60) | 90 % (90 to 90) | 0.75 (0.50 to 1.00) |",
		"own normal distributions in 0 of the 1 in which they were recorded, and the process is above the Gaussian in the mean of 1")

	// A value function leaves 1 of 10 in all batches of the first four fifths and in half of the last one's; in the others, where there is next
	// to nothing to explain, 0.9 of 1.
	lasting := []string{rows[0] + ",target_std,explained_variance"}
	for i, row := range rows[1:] {
		if i >= 96 && i%2 == 0 {
			row += ",0.9486833,0.1"
		} else {
			row += ",1,0.9"
		}
		lasting = append(lasting, row)
	}
	write(t, path, strings.Join(lasting, "\n")+"\n")
	mustStudy(t, "calibration", "--out", out)
	contains(t, read(t, out, pageName), "| Hopper-v4 | trpo-uapg-best-s1 | 0.89 | 0.90, 0.90, 0.90, 0.90, 0.83 | 0.90, 0.90, 0.90, 0.90, 0.50 |")

	// Another seed leaves 5 of 10 in all of its batches: 118.8 of 1092 and 600 of 1200.
	other := []string{lasting[0]}
	for _, row := range rows[1:] {
		other = append(other, row+",2.236068,0.5")
	}
	write(t, filepath.Join(out, "data", "Hopper-v4", "trpo-uapg-best-s2.csv"), strings.Join(other, "\n")+"\n")
	mustStudy(t, "calibration", "--out", out)
	contains(t, read(t, out, pageName), "| Hopper-v4 | trpo-uapg-best, 2 runs | 0.69 |")
	write(t, path, strings.Join(rows[:20], "\n")+"\n")
	if err := study(t, "calibration", "--out", out); err == nil || !strings.Contains(err.Error(), "begins with iteration 20") {
		t.Errorf("a run of 19 iterations: %v", err)
	}
}
