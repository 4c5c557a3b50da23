// Package nearest suggests the intended name in messages about one that does not exist.
package nearest

import "strings"

// longest bounds the length of the words: the distance costs the product of the two lengths.
const longest = 100

// Name returns the candidate with the fewest edits from name, ignoring case, and the number of edits; of equals, the
// first. A name of at least three letters that is part of a candidate counts as one edit away from it ("lambda" means
// gae_lambda, not gamma); of several such candidates the shortest is meant. Without candidates it returns "".
func Name(name string, candidates []string) (closest string, edits int) {
	name = strings.ToLower(name[:min(len(name), longest)])
	for i, candidate := range candidates {
		whole := strings.ToLower(candidate[:min(len(candidate), longest)])
		d := distance(name, whole)
		part := len(name) >= 3 && strings.Contains(whole, name)
		if part {
			d = min(d, 1)
		}
		if i == 0 || d < edits || d == edits && part && len(candidate) < len(closest) {
			closest, edits = candidate, d
		}
	}
	return closest, edits
}

// distance returns the length of the shortest sequence of single-byte insertions, deletions, substitutions and
// transpositions that turns a into b without editing any byte twice (the optimal string alignment).
// Transpositions are the most common typing mistake.
func distance(a, b string) int {
	// Rows of the table of distances between prefixes: a[:i-1], a[:i] and a[:i+1] against every b[:j].
	before, row, next := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next[0] = i + 1
		for j := range len(b) {
			substitution := row[j]
			if a[i] != b[j] {
				substitution++
			}
			next[j+1] = min(substitution, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row, next = row, next, before
	}
	return row[len(b)]
}

// List writes names as "a, b or c".
func List(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
