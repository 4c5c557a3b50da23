package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/dbqpg/dbqpg/internal/nearest"
	"github.com/dbqpg/dbqpg/sim/external"
)

// value is a setting of a run or a worker. It implements pflag.Value.
type value struct {
	*setting
	field any // pointer to the field
}

// Kinds of settings that are treated differently from others of their type.
const (
	kindText     = "text"          // free text
	kindFile     = "file"          // given as a file, kept as its contents
	kindBool     = "bool"          // true or false
	kindList     = "int,int"       // a list of numbers
	kindLearned  = "float|learned" // a number or "learned"
	kindAuto     = "int|auto"      // a number or "auto"
	kindMultiple = "multiple"      // a number with an x behind it
)

// auto is the value of "auto" where a number is expected.
const auto = -1

// Type implements pflag.Value.
func (v value) Type() string { return v.Kind }

// String returns the text that Set reads.
func (v value) String() string {
	if v.field == nil { // pflag calls String on a zero value to decide whether to print a default
		return ""
	}
	switch x := reflect.ValueOf(v.field).Elem().Interface().(type) {
	case int:
		if v.Kind == kindAuto && x == auto {
			return "auto"
		}
	case float64:
		switch {
		case v.Kind == kindLearned && x == Learned:
			return "learned"
		case v.Kind == kindMultiple:
			return formatNumber(x) + "x"
		}
		return formatNumber(x)
	case []int, []uint64:
		return strings.ReplaceAll(fmt.Sprint(x), " ", ", ")
	case *external.File:
		if x == nil {
			return ""
		}
	}
	return fmt.Sprint(reflect.ValueOf(v.field).Elem())
}

// formatNumber returns the shortest decimal that gives the same bits, with a decimal point before an exponent: some
// YAML parsers take 5e-05 for a string.
func formatNumber(x float64) string {
	text := strconv.FormatFloat(x, 'g', -1, 64)
	mantissa, exponent, found := strings.Cut(text, "e")
	if found && !strings.Contains(mantissa, ".") {
		return mantissa + ".0e" + exponent
	}
	return text
}

// Set implements pflag.Value. After an error the field is as before.
func (v value) Set(text string) error {
	switch field := v.field.(type) {
	case pflag.Value:
		return field.Set(text)
	case *bool:
		return set(field, text, "true or false", strconv.ParseBool)
	case *int:
		if v.Kind == kindAuto {
			return set(field, text, "auto or a non-negative whole number", parseAuto)
		}
		return set(field, text, "a whole number", strconv.Atoi)
	case *uint64:
		return set(field, text, "a non-negative whole number", parseCount)
	case *float64:
		switch v.Kind {
		case kindLearned:
			return set(field, text, "learned or a positive number", parseLearned)
		case kindMultiple:
			return set(field, text, "a multiple, such as 3x", parseMultiple)
		}
		return set(field, text, "a number", parseFloat)
	case *time.Duration:
		return set(field, text, "a duration, such as 3s", time.ParseDuration)
	case *[]int:
		return setList(field, text, "64,64", strconv.Atoi)
	case *[]uint64:
		return setList(field, text, "0,150,300", parseCount)
	case **external.File:
		return setTaskFile(field, text)
	}
	return v.setWord(text)
}

// set sets a field to the number in a text; what says what the text must be.
func set[T any](field *T, text, what string, parse func(string) (T, error)) error {
	x, err := parse(text)
	if err != nil {
		return fmt.Errorf("%q is not %s", text, what)
	}
	*field = x
	return nil
}

func parseFloat(text string) (float64, error) { return strconv.ParseFloat(text, 64) }

func parseCount(text string) (uint64, error) { return strconv.ParseUint(text, 10, 64) }

func parseAuto(text string) (int, error) {
	if text == "auto" {
		return auto, nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	return int(n), err
}

func parseLearned(text string) (float64, error) {
	if text == "learned" {
		return Learned, nil
	}
	x, err := parseFloat(text)
	if err == nil && !(x > 0) {
		err = strconv.ErrRange
	}
	return x, err
}

func parseMultiple(text string) (float64, error) {
	digits, found := strings.CutSuffix(text, "x")
	if !found {
		return 0, strconv.ErrSyntax
	}
	return parseFloat(digits)
}

// setList sets a field to a list of numbers, in brackets as in YAML or without. example is one of them.
func setList[T any](field *[]T, text, example string, parse func(string) (T, error)) error {
	inner, open := strings.CutPrefix(text, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	if open != closed {
		return errors.New("a bracket is not closed")
	}
	var all []T
	for part := range strings.SplitSeq(inner, ",") {
		if strings.TrimSpace(inner) == "" {
			break
		}
		var x T
		what := "a non-negative whole number; write a list as " + example
		if err := set(&x, strings.TrimSpace(part), what, parse); err != nil {
			return err
		}
		all = append(all, x)
	}
	*field = all
	return nil
}

// setTaskFile sets a field to the task file at a path, or to its contents, in braces.
func setTaskFile(field **external.File, text string) (err error) {
	switch {
	case text == "":
		*field = nil
		return nil
	case strings.HasPrefix(text, "{"):
		*field, err = external.Parse([]byte(text))
	default:
		*field, err = external.Load(text)
	}
	return err
}

// setWord sets a field to a text: one of the setting's words, if it has some.
func (v value) setWord(text string) error {
	if words := v.words(); len(words) > 0 && !slices.Contains(words, text) {
		meant := ""
		if word, edits := nearest.Name(text, words); edits <= 2 {
			meant = "; did you mean " + word + "?"
		}
		return fmt.Errorf("%q is not %s%s", text, nearest.List(words), meant)
	}
	reflect.ValueOf(v.field).Elem().SetString(text)
	return nil
}
