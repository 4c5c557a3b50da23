package safetensors

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// scanner parses the JSON of a header: objects, arrays of whole numbers, strings. It uses encoding/json only for the
// contents of strings, because that package allocates many times its input for small or deep entries, and accepts
// duplicate names.
type scanner struct {
	text []byte
	at   int
}

// next skips white space and returns the next byte without consuming it, 0 at the end.
func (s *scanner) next() byte {
	for s.at < len(s.text) && strings.IndexByte(" \t\r\n", s.text[s.at]) >= 0 {
		s.at++
	}
	if s.at == len(s.text) {
		return 0
	}
	return s.text[s.at]
}

// take skips white space and consumes the byte c, or returns an error if the next byte is another.
func (s *scanner) take(c byte) error {
	if s.next() != c || c == 0 {
		return malformed("header: %.10q at byte %d where %q belongs", s.text[s.at:], s.at, c)
	}
	s.at++
	return nil
}

// list reads the opening byte, items between commas, and the closing byte.
func (s *scanner) list(opening, closing byte, item func() error) error {
	if err := s.take(opening); err != nil {
		return err
	}
	if s.next() == closing {
		return s.take(closing)
	}
	for {
		if err := item(); err != nil {
			return err
		}
		if s.next() != ',' {
			return s.take(closing)
		}
		s.at++
	}
}

// object reads {"key": value, ...}, calling value to read each.
func (s *scanner) object(value func(key string) error) error {
	return s.list('{', '}', func() error {
		key, err := s.str()
		if err != nil {
			return err
		}
		if err := s.take(':'); err != nil {
			return err
		}
		return value(key)
	})
}

// numbers reads an array of at most len(dst) whole numbers into dst and returns their number.
func (s *scanner) numbers(dst []int) (n int, err error) {
	err = s.list('[', ']', func() error {
		if n == len(dst) {
			return malformed("header: more than %d numbers at byte %d", len(dst), s.at)
		}
		dst[n], err = s.number()
		n++
		return err
	})
	return n, err
}

// number reads a whole number without a sign.
func (s *scanner) number() (int, error) {
	s.next()
	start := s.at
	for s.at < len(s.text) && '0' <= s.text[s.at] && s.text[s.at] <= '9' {
		s.at++
	}
	digits := string(s.text[start:s.at])
	n, err := strconv.Atoi(digits)
	if err != nil || len(digits) > 1 && digits[0] == '0' {
		return 0, malformed("header: %.20q at byte %d is no length", s.text[start:], start)
	}
	return n, nil
}

// str reads a string.
func (s *scanner) str() (string, error) {
	if err := s.take('"'); err != nil {
		return "", err
	}
	start, escaped := s.at, false
	for ; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			if raw := s.text[start : s.at-1]; !escaped {
				return string(raw), nil
			}
			return unescape(s.text[start-1 : s.at])
		case c == '\\':
			escaped = true
			s.at++ // the next byte does not end the string
		case c < ' ':
			return "", malformed("header: control character in a string at byte %d", s.at)
		}
	}
	return "", malformed("header: the string at byte %d does not end", start)
}

// unescape reads a string with escapes, in its quotes. encoding/json replaces halves of surrogate pairs; here they are
// an error.
func unescape(quoted []byte) (text string, err error) {
	const replacement = "\uFFFD"
	err = json.Unmarshal(quoted, &text)
	if err != nil || strings.Count(text, replacement) != bytes.Count(quoted, []byte(replacement)) {
		return "", malformed("header: unknown escape in %.40q", quoted)
	}
	return text, nil
}
