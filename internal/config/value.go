package config

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/dbqpg/dbqpg/internal/nearest"
	"github.com/dbqpg/dbqpg/sim/external"
)

// value is a pflag.Value over a field of type T.
type value[T any] struct {
	field  *T
	kind   string // type, as shown in the usage of flags
	parse  func(text string) (T, error)
	format func(T) string
}

func (v value[T]) Set(text string) error {
	parsed, err := v.parse(text)
	if err == nil {
		*v.field = parsed
	}
	return err
}

func (v value[T]) String() string {
	if v.field == nil { // pflag calls String on a zero value to decide whether to print a default
		return ""
	}
	return v.format(*v.field)
}

func (v value[T]) Type() string { return v.kind }

// Kinds of settings.
const (
	kindText    = "text"          // free text
	kindFile    = "file"          // given as a file, kept as its contents
	kindBool    = "bool"          // true or false
	kindList    = "int,int"       // a list of numbers
	kindLearned = "float|learned" // a number or "learned"
)

// parser returns parse with errors that say what a text must be.
func parser[T any](parse func(text string) (T, error), what string) func(text string) (T, error) {
	return func(text string) (T, error) {
		x, err := parse(text)
		if err != nil {
			return x, fmt.Errorf("%q is not %s", text, what)
		}
		return x, nil
	}
}

func parseFloat(text string) (float64, error) { return strconv.ParseFloat(text, 64) }

func parseCount(text string) (uint64, error) { return strconv.ParseUint(text, 10, 64) }

func formatCount(n uint64) string { return strconv.FormatUint(n, 10) }

func same(text string) string { return text }

func text(field *string) pflag.Value {
	return value[string]{field, kindText, func(text string) (string, error) { return text, nil }, same}
}

func whole(field *int) pflag.Value {
	return value[int]{field, "int", parser(strconv.Atoi, "a whole number"), strconv.Itoa}
}

func count(field *uint64) pflag.Value {
	return value[uint64]{field, "int", parser(parseCount, "a non-negative whole number"), formatCount}
}

func number(field *float64) pflag.Value {
	return value[float64]{field, "float", parser(parseFloat, "a number"), formatNumber}
}

func duration(field *time.Duration) pflag.Value {
	return value[time.Duration]{field, "duration", parser(time.ParseDuration, "a duration, such as 3s"),
		time.Duration.String}
}

func truth(field *bool) pflag.Value {
	return value[bool]{field, kindBool, parser(strconv.ParseBool, "true or false"), strconv.FormatBool}
}

// multiple returns the value of a multiple, such as "3x".
func multiple(field *float64) pflag.Value {
	parse := func(text string) (float64, error) {
		digits, found := strings.CutSuffix(text, "x")
		if !found {
			return 0, strconv.ErrSyntax
		}
		return parseFloat(digits)
	}
	format := func(x float64) string { return formatNumber(x) + "x" }
	return value[float64]{field, "multiple", parser(parse, "a multiple, such as 3x"), format}
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

// orWord returns v with one more value, a word.
func orWord[T comparable](v value[T], word string, meaning T) value[T] {
	parse, format := v.parse, v.format
	v.parse = func(text string) (T, error) {
		if text == word {
			return meaning, nil
		}
		return parse(text)
	}
	v.format = func(x T) string {
		if x == meaning {
			return word
		}
		return format(x)
	}
	return v
}

// auto is the value of "auto" where a number is expected.
const auto = -1

// autoWhole returns the value of a whole number or "auto".
func autoWhole(field *int) pflag.Value {
	parse := func(text string) (int, error) {
		n, err := strconv.ParseUint(text, 10, 31)
		return int(n), err
	}
	return orWord(value[int]{field, "int", parser(parse, "auto or a non-negative whole number"), strconv.Itoa}, "auto",
		auto)
}

// learnedOr returns the value of a positive number or "learned", which is 0.
func learnedOr(field *float64) pflag.Value {
	parse := func(text string) (float64, error) {
		x, err := parseFloat(text)
		if err == nil && !(x > 0) {
			err = strconv.ErrRange
		}
		return x, err
	}
	return orWord(value[float64]{field, kindLearned, parser(parse, "learned or a positive number"), formatNumber},
		"learned", Learned)
}

// list returns the value of a list of numbers, in brackets as in YAML or without. example is one of them.
func list[T any](field *[]T, parse func(string) (T, error), example string) pflag.Value {
	parseAll := func(text string) (all []T, err error) {
		inner, bracketed := strings.CutPrefix(text, "[")
		if bracketed {
			if inner, bracketed = strings.CutSuffix(inner, "]"); !bracketed {
				return nil, errors.New("a bracket is not closed")
			}
		}
		if strings.TrimSpace(inner) == "" {
			return nil, nil
		}
		for part := range strings.SplitSeq(inner, ",") {
			x, err := parse(strings.TrimSpace(part))
			if err != nil {
				return nil, fmt.Errorf("%q is not a non-negative whole number; write a list as %s", part, example)
			}
			all = append(all, x)
		}
		return all, nil
	}
	format := func(all []T) string { return strings.ReplaceAll(fmt.Sprint(all), " ", ", ") }
	return value[[]T]{field, kindList, parseAll, format}
}

// taskFile is the path of a task file, or its contents in braces.
func taskFile(field **external.File) pflag.Value {
	parse := func(text string) (*external.File, error) {
		switch {
		case text == "":
			return nil, nil
		case strings.HasPrefix(text, "{"):
			return external.Parse([]byte(text))
		}
		return external.Load(text)
	}
	format := func(f *external.File) string {
		if f == nil {
			return ""
		}
		return f.String()
	}
	return value[*external.File]{field, kindFile, parse, format}
}

// choice returns the value of one of a few words.
func choice[T ~string](field *T, allowed ...T) pflag.Value {
	words := make([]string, len(allowed))
	for i, word := range allowed {
		words[i] = string(word)
	}
	parse := func(text string) (T, error) {
		for _, word := range allowed {
			if text == string(word) {
				return word, nil
			}
		}
		meant := ""
		if word, edits := nearest.Name(text, words); edits <= 2 {
			meant = "; did you mean " + word + "?"
		}
		return "", fmt.Errorf("%q is not %s%s", text, nearest.List(words), meant)
	}
	return value[T]{field, strings.Join(words, "|"), parse, func(word T) string { return string(word) }}
}

// baseKernel returns the value of the name of a base kernel.
func baseKernel(field *string) pflag.Value {
	v := choice(field, baseKernelNames()...).(value[string])
	v.kind = "name"
	return v
}
