package commandline

import (
	"os"
	"slices"
	"strings"
)

// Program returns how this program was called, as the shell takes it: "go run ./learner" for one that go run has built.
func Program() string {
	if path, err := os.Executable(); err == nil && strings.Contains(path, "go-build") {
		return "go run ./learner"
	}
	return Quote(os.Args[0])
}

// Quote returns a word as the shell takes it.
func Quote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("-_./=,:@%+", r)
	}
	if word != "" && !slices.ContainsFunc([]rune(word), func(r rune) bool { return !plain(r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
