package gradient

import (
	"math"
	"regexp"
	"slices"

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
	for group, names := range groups {
		var difference, gotNorm, wantNorm, dot float64
		for _, name := range names {
			for i, x := range want[name].Floats {
				y := answers[name].Floats[i]
				difference += (x - y) * (x - y)
				gotNorm += y * y
				wantNorm += x * x
				dot += x * y
			}
		}
		differences = append(differences, Difference{group, math.Sqrt(difference / wantNorm), dot / math.Sqrt(gotNorm*wantNorm)})
	}
	slices.SortFunc(differences, func(a, b Difference) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return differences
}
