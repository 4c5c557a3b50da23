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

// kindText is the kind of settings that are free text.
const kindText = "text"

// kindBool is the kind of settings that are true or false.
const kindBool = "bool"

// kindList is the kind of settings that are lists of numbers.
const kindList = "int,int"

// kindLearned is the kind of settings that are a number or "learned".
const kindLearned = "float|learned"

func text(field *string) pflag.Value {
	same := func(text string) string { return text }
	return value[string]{field, kindText, func(text string) (string, error) { return text, nil }, same}
}

// kindFile is the kind of settings that are given as a file, and kept as its contents.
const kindFile = "file"

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

func whole(field *int) pflag.Value {
	return value[int]{field, "int", parseWhole, strconv.Itoa}
}

func parseWhole(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a whole number", text)
	}
	return n, nil
}

// auto is the value of "auto" where a number is expected.
const auto = -1

// autoWhole returns the value of a whole number or "auto".
func autoWhole(field *int) pflag.Value {
	parse := func(text string) (int, error) {
		if text == "auto" {
			return auto, nil
		}
		n, err := parseWhole(text)
		if err != nil || n < 0 {
			return 0, fmt.Errorf("%q is neither auto nor a non-negative whole number", text)
		}
		return n, nil
	}
	format := func(n int) string {
		if n == auto {
			return "auto"
		}
		return strconv.Itoa(n)
	}
	return value[int]{field, "int", parse, format}
}

func count(field *uint64) pflag.Value {
	parse := func(text string) (uint64, error) {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%q is not a non-negative whole number", text)
		}
		return n, nil
	}
	return value[uint64]{field, "int", parse, func(n uint64) string { return strconv.FormatUint(n, 10) }}
}

func number(field *float64) pflag.Value {
	parse := func(text string) (float64, error) {
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return 0, fmt.Errorf("%q is not a number", text)
		}
		return x, nil
	}
	return value[float64]{field, "float", parse, formatNumber}
}

func duration(field *time.Duration) pflag.Value {
	parse := func(text string) (time.Duration, error) {
		d, err := time.ParseDuration(text)
		if err != nil {
			return 0, fmt.Errorf("%q is not a duration, such as 3s", text)
		}
		return d, nil
	}
	return value[time.Duration]{field, "duration", parse, time.Duration.String}
}

// multiple returns the value of a multiple, such as "3x".
func multiple(field *float64) pflag.Value {
	parse := func(text string) (float64, error) {
		digits, found := strings.CutSuffix(text, "x")
		x, err := strconv.ParseFloat(digits, 64)
		if err != nil || !found {
			return 0, fmt.Errorf("%q is not a multiple, such as 3x", text)
		}
		return x, nil
	}
	return value[float64]{field, "multiple", parse, func(x float64) string { return formatNumber(x) + "x" }}
}

// formatNumber returns the shortest decimal that gives the same bits, with a decimal point before an exponent: some YAML
// parsers take 5e-05 for a string.
func formatNumber(x float64) string {
	text := strconv.FormatFloat(x, 'g', -1, 64)
	mantissa, exponent, found := strings.Cut(text, "e")
	if found && !strings.Contains(mantissa, ".") {
		return mantissa + ".0e" + exponent
	}
	return text
}

func truth(field *bool) pflag.Value {
	parse := func(text string) (bool, error) {
		b, err := strconv.ParseBool(text)
		if err != nil {
			return false, fmt.Errorf("%q is neither true nor false", text)
		}
		return b, nil
	}
	return value[bool]{field, kindBool, parse, strconv.FormatBool}
}

// unbracketed removes the brackets that a list may have, as in YAML.
func unbracketed(text string) (string, error) {
	inner, found := strings.CutPrefix(text, "[")
	if !found {
		return text, nil
	}
	if text, found = strings.CutSuffix(inner, "]"); !found {
		return "", errors.New("a bracket is not closed")
	}
	return text, nil
}

// bracketed formats a list as in YAML.
func bracketed[T any](list []T) string { return strings.ReplaceAll(fmt.Sprint(list), " ", ", ") }

// counts returns the value of a list of non-negative whole numbers, such as "0,150", which may be empty.
func counts(field *[]uint64) pflag.Value {
	parse := func(text string) ([]uint64, error) {
		text, err := unbracketed(text)
		if err != nil || strings.TrimSpace(text) == "" {
			return nil, err
		}
		var list []uint64
		for part := range strings.SplitSeq(text, ",") {
			n, err := strconv.ParseUint(strings.TrimSpace(part), 10, 64)
			if err != nil {
				return nil, fmt.Errorf("%q is not a non-negative whole number; write a list as 0,150,300", part)
			}
			list = append(list, n)
		}
		return list, nil
	}
	return value[[]uint64]{field, kindList, parse, bracketed[uint64]}
}

// sizes returns the value of a list of layer widths: "64,64", or in brackets as in YAML.
func sizes(field *[]int) pflag.Value {
	parse := func(text string) ([]int, error) {
		text, err := unbracketed(text)
		if err != nil {
			return nil, err
		}
		var list []int
		for part := range strings.SplitSeq(text, ",") {
			n, err := parseWhole(strings.TrimSpace(part))
			if err != nil {
				return nil, fmt.Errorf("%w; write layers as 64,64", err)
			}
			list = append(list, n)
		}
		return list, nil
	}
	return value[[]int]{field, kindList, parse, bracketed[int]}
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

// learnedOr returns the value of a positive number or "learned", which is 0.
func learnedOr(field *float64) pflag.Value {
	parse := func(text string) (float64, error) {
		if text == "learned" {
			return Learned, nil
		}
		x, err := strconv.ParseFloat(text, 64)
		if err != nil || !(x > 0) {
			return 0, fmt.Errorf("%q is neither learned nor a positive number", text)
		}
		return x, nil
	}
	format := func(x float64) string {
		if x == Learned {
			return "learned"
		}
		return formatNumber(x)
	}
	return value[float64]{field, kindLearned, parse, format}
}
