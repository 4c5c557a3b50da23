package commandline

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// release and commit are set by the linker where the go command knows neither, as in an image.
var release, commit string

// Build returns the program's version, a release or a pseudo-version, its revision, "" if it is not recorded, and whether files
// had been changed since.
func Build() (version, revision string, changed bool) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return release, commit, false
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value
		case "vcs.modified":
			changed = s.Value == "true"
		}
	}
	return cmp.Or(release, info.Main.Version), cmp.Or(commit, revision), changed
}

// Commit describes the revision that the program was built from.
func Commit() string {
	_, revision, changed := Build()
	switch {
	case revision == "" && goRun():
		return "commit not recorded (go run)"
	case revision == "":
		return "commit not recorded"
	case changed:
		return "commit " + revision[:min(len(revision), 12)] + " with changes"
	}
	return "commit " + revision[:min(len(revision), 12)]
}

// Version returns the text of a program's --version.
func Version() string {
	version, _, _ := Build()
	return fmt.Sprintf("%s, %s, Go %s", version, Commit(), strings.TrimPrefix(runtime.Version(), "go"))
}
