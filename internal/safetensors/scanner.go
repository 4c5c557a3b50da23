package safetensors

import (
	"strconv"
	"strings"
	"unicode/utf16"
)

// scanner reads the JSON that a header consists of: objects, arrays of whole numbers, strings. Strings without
// escapes share the text's memory. (encoding/json allocates many times its input for small entries.)
type scanner struct {
	text string
	at   int
}

// next skips white space and returns the byte after it without taking it, 0 at the end.
func (s *scanner) next() byte {
	for s.at < len(s.text) && strings.IndexByte(" \t\r\n", s.text[s.at]) >= 0 {
		s.at++
	}
	if s.at == len(s.text) {
		return 0
	}
	return s.text[s.at]
}

// take skips white space and removes the byte c, or says that something else is there.
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

// numbers reads an array of at most len(dst) whole numbers into dst and returns how many they are.
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
	digits := s.text[start:s.at]
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
			raw := s.text[start:s.at]
			s.at++
			if escaped {
				return unescape(raw)
			}
			return raw, nil
		case c == '\\':
			escaped = true
			s.at++ // whatever follows does not end the string
		case c < ' ':
			return "", malformed("header: control character in a string at byte %d", s.at)
		}
	}
	return "", malformed("header: the string at byte %d does not end", start)
}

// escapes maps the letter after a backslash to what the two stand for.
var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// unescape replaces a string's escapes. Every backslash in raw is followed by something.
func unescape(raw string) (string, error) {
	var out strings.Builder
	out.Grow(len(raw))
	for rest := raw; rest != ""; {
		plain, after, found := strings.Cut(rest, `\`)
		out.WriteString(plain)
		switch rest = after; {
		case !found:
		case escapes[after[0]] != 0:
			out.WriteByte(escapes[after[0]])
			rest = after[1:]
		default:
			letter, length := unicodeEscape(after)
			if length == 0 {
				return "", malformed("header: unknown escape in %.40q", raw)
			}
			out.WriteRune(letter)
			rest = after[length:]
		}
	}
	return out.String(), nil
}

// unicodeEscape reads uXXXX, or the two halves uXXXX\uXXXX of a surrogate pair, at the start of text and returns
// the character and the bytes it took: 0 where it is neither.
func unicodeEscape(text string) (letter rune, length int) {
	unit := func(text string) (rune, bool) {
		if len(text) < 5 || text[0] != 'u' {
			return 0, false
		}
		n, err := strconv.ParseUint(text[1:5], 16, 16)
		return rune(n), err == nil
	}
	high, ok := unit(text)
	if !ok {
		return 0, 0
	}
	if !utf16.IsSurrogate(high) {
		return high, 5
	}
	if len(text) < 11 || text[5] != '\\' {
		return 0, 0
	}
	low, ok := unit(text[6:])
	if letter = utf16.DecodeRune(high, low); !ok || letter == '\uFFFD' {
		return 0, 0
	}
	return letter, 11
}
