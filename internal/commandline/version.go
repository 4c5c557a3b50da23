package commandline

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"

	"github.com/dbqpg/dbqpg/internal/failpoint"
)

// release and commit are set by the linker where the go command knows neither, as in an image.
var release, commit string

// Build returns what the go command recorded of this program's build: the version of a release, or a pseudo-version, and the
// revision, "" if there is none, as with go run; and whether files had been changed since.
func Build() (version, revision string, changed bool) {
	released := cmp.Or(failpoint.Release(), release)
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return released, commit, false
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value
		case "vcs.modified":
			changed = s.Value == "true"
		}
	}
	return cmp.Or(released, info.Main.Version), cmp.Or(commit, revision), changed
}

// Release returns the release that the program is of, as in package semver: v0.2.0. It is "" for all other builds.
func Release() string {
	version, _, _ := Build()
	if version = "v" + strings.TrimPrefix(version, "v"); semver.IsValid(version) && semver.Build(version) == "" && !module.IsPseudoVersion(version) {
		return version
	}
	return ""
}

// Commit describes the revision that the program was built from.
func Commit() string {
	_, revision, changed := Build()
	switch {
	case revision == "":
		return "commit not recorded (go run)"
	case changed:
		return "commit " + revision[:min(len(revision), 12)] + " with changes"
	}
	return "commit " + revision[:min(len(revision), 12)]
}

// Version is what a program's --version says of it.
func Version() string {
	version, _, _ := Build()
	return fmt.Sprintf("%s, %s, Go %s", version, Commit(), strings.TrimPrefix(runtime.Version(), "go"))
}
