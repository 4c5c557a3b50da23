package runs

import (
	"math"
	"reflect"
	"strings"

	"github.com/dbqpg/dbqpg/internal/progress"
	"github.com/dbqpg/dbqpg/internal/tensorboard"
)

// Row is a row of progress.csv, which starts with [NewRow].
type Row = progress.Row

// Evaluation is a row of evaluations.csv.
type Evaluation = progress.Evaluation

// NewRow returns a row in which all numbers are NaN or 0.
func NewRow() Row {
	var row Row
	fields := reflect.ValueOf(&row).Elem()
	for i := range fields.NumField() {
		if field := fields.Field(i); field.CanFloat() {
			field.SetFloat(math.NaN())
		}
	}
	return row
}

// Scalars returns a row, of any type, for TensorBoard: every number that applies.
func Scalars(row any) []tensorboard.Scalar {
	var scalars []tensorboard.Scalar
	eachScalar(row, func(_ string, s tensorboard.Scalar) { scalars = append(scalars, s) })
	return scalars
}

// ScalarsBySteps returns the returns in a row, of any type, and the environment steps at which TensorBoard shows them.
func ScalarsBySteps(row any) (steps uint64, scalars []tensorboard.Scalar) {
	eachScalar(row, func(column string, s tensorboard.Scalar) {
		if group, _, _ := strings.Cut(s.Tag, "/"); group == "return" || group == "evaluation" {
			s.Tag = "by_steps/" + column
			scalars = append(scalars, s)
		}
	})
	return reflect.ValueOf(row).FieldByName("Steps").Uint(), scalars
}

// eachScalar calls f for every number in a row that applies.
func eachScalar(row any, f func(column string, s tensorboard.Scalar)) {
	fields := reflect.ValueOf(row)
	for i := range fields.NumField() {
		field, tags := fields.Field(i), fields.Type().Field(i).Tag
		if tags.Get("tag") == "" {
			continue // the iteration is the curves' abscissa
		}
		var value float64
		if field.CanUint() {
			value = float64(field.Uint())
		} else {
			value = field.Float()
		}
		if !math.IsNaN(value) {
			f(tags.Get("csv"), tensorboard.Scalar{Tag: tags.Get("tag"), Value: value, Description: tags.Get("help")})
		}
	}
}
