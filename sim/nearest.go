package sim

import "strings"

// nearest returns the task whose name takes the fewest edits to reach, ignoring case; the first of equals.
func nearest(name string) string {
	best, fewest := "", 0
	// No task's name is long, and the distance costs the product of the lengths.
	name = strings.ToLower(name[:min(len(name), 100)])
	for _, spec := range specs {
		if d := editDistance(name, strings.ToLower(spec.Name)); best == "" || d < fewest {
			best, fewest = spec.Name, d
		}
	}
	return best
}

// editDistance is Levenshtein's: the least number of insertions, deletions and substitutions of bytes that
// turn a into b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1) // row[j]: the distance from a[:i] to b[:j]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substituted := diagonal
			if a[i] != b[j] {
				substituted++
			}
			diagonal = row[j+1]
			row[j+1] = min(substituted, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}
