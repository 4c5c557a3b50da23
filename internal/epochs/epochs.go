// Package epochs names the places of a run that workers train, below a store's root or any other:
//
//	RUN/epoch-7                directory of epoch 7 (each time that the run was taken)
//	RUN/logs/epoch-7.txt       what its worker logged
//	RUN/id-3/...               the same of a run whose name was used before, or that began anew
//
// The directory that holds a run's epochs, RUN or RUN/id-3, is its home.
package epochs

import (
	"path"
	"strconv"
	"strings"
)

const (
	idPrefix    = "id-"
	epochPrefix = "epoch-"
	logSuffix   = ".txt"
)

// Home returns the home of a run; an ID of 0 is none.
func Home(run string, id uint64) string {
	if id == 0 {
		return run
	}
	return run + "/" + numbered(idPrefix, id)
}

// Directory returns the directory of an epoch.
func Directory(home string, epoch uint64) string {
	return path.Join(home, numbered(epochPrefix, epoch))
}

// Logs returns the directory of the epochs' logs.
func Logs(home string) string { return path.Join(home, "logs") }

// Log returns the log of an epoch.
func Log(home string, epoch uint64) string {
	return path.Join(Logs(home), numbered(epochPrefix, epoch)+logSuffix)
}

// CutID cuts the ID off a path that begins with one.
func CutID(name string) (id uint64, rest string, found bool) { return cut(name, idPrefix) }

// CutEpoch cuts the epoch off a path that begins with one.
func CutEpoch(name string) (epoch uint64, rest string, found bool) { return cut(name, epochPrefix) }

// Split returns the home and the epoch of an epoch's directory; any other directory, and 0.
func Split(directory string) (home string, epoch uint64) {
	if epoch, _, found := CutEpoch(path.Base(directory)); found {
		return path.Dir(directory), epoch
	}
	return directory, 0
}

// Run returns the run of a home.
func Run(home string) string {
	if _, _, found := CutID(path.Base(home)); found {
		return path.Dir(home)
	}
	return home
}

// OfLog returns the epoch of a log, 0 if it is none.
func OfLog(log string) uint64 {
	epoch, _, _ := CutEpoch(strings.TrimSuffix(path.Base(log), logSuffix))
	return epoch
}

func numbered(prefix string, number uint64) string { return prefix + strconv.FormatUint(number, 10) }

func cut(name, prefix string) (number uint64, rest string, found bool) {
	first, rest, _ := strings.Cut(name, "/")
	digits, found := strings.CutPrefix(first, prefix)
	number, err := strconv.ParseUint(digits, 10, 64)
	if !found || err != nil {
		return 0, name, false
	}
	return number, rest, true
}
