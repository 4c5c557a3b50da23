package gradient

import (
	"maps"
	"regexp"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/dbqpg/dbqpg/internal/npz"
)

// Difference is how far an answer is from the expected one.
type Difference struct {
	Name     string  // without expect_; a gradient's arrays together count as one
	Relative float64 // norm of the difference over the norm of the expected
	Cosine   float64
}

// parameter is the end of the name of one array of a network's gradient.
var parameter = regexp.MustCompile(`_(w\d+|b\d+|log_std)$`)

// Compare compares the answers with those of want that have their names, in order of
// the names.
func Compare(answers, want npz.Arrays) []Difference {
	groups := map[string][]string{}
	for _, name := range answers.Names() {
		if array, ok := want[name]; ok && slices.Equal(array.Shape, answers[name].Shape) {
			group := parameter.ReplaceAllString(name[len("expect_"):], "")
			groups[group] = append(groups[group], name)
		}
	}
	var differences []Difference
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		var x, y []float64
		for _, name := range groups[group] {
			x, y = append(x, want[name].Floats...), append(y, answers[name].Floats...)
		}
		norm := floats.Norm(x, 2)
		differences = append(differences, Difference{group, floats.Distance(x, y, 2) / norm,
			floats.Dot(x, y) / (norm * floats.Norm(y, 2))})
	}
	return differences
}
