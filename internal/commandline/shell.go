package commandline

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Program returns how the learner was called, as the shell takes it: "go run ./learner" for one that go run has built.
func Program() string { return called("learner", os.Args[0]) }

// Sibling returns how a program is called that is beside this one.
func Sibling(program string) string {
	directory, _ := filepath.Split(os.Args[0])
	return called(program, directory+program)
}

func called(program, path string) string {
	if goRun() {
		return "go run ./" + program
	}
	return Quote(path)
}

// goRun reports whether go run has built the program.
func goRun() bool {
	own, err := os.Executable()
	return err == nil && strings.Contains(own, "go-build")
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
