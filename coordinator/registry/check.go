package registry

import (
	"encoding/hex"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dbqpg/dbqpg/proto"
)

// Limits on a command's contents.
const (
	maxText    = 1024 // bytes of a location, an address or a reason
	maxMetrics = 64   // of a summary

	MinTTL = 100 * time.Millisecond // of a lease
	MaxTTL = 24 * time.Hour
)

// checkName refuses a name with anything but letters, digits, "-", "_", "=" and "/", since runs'
// names are parts of NATS subjects.
func checkName(what, name string, limit int) *Refusal {
	if len(name) > limit {
		return refuse(Invalid, "%s of %d bytes; at most %d are allowed", what, len(name), limit)
	}
	if proto.CheckRun(name) != nil {
		return refuse(Invalid, "%s, %q: letters, digits, - _ = and / are allowed, and at least one", what, name)
	}
	return nil
}

func checkRun(name string) *Refusal { return checkName("a run's name", name, proto.MaxName) }

// checkText refuses a text that is too long or would disturb a terminal.
func checkText(what, text string, limit int) *Refusal {
	if len(text) > limit {
		return refuse(Invalid, "%s: %d bytes; at most %d are allowed", what, len(text), limit)
	}
	control := func(r rune) bool { return r < ' ' || r == 0x7f }
	if !utf8.ValidString(text) || strings.ContainsFunc(text, control) {
		return refuse(Invalid, "%s: %q is not a single line of text", what, text)
	}
	return nil
}

func checkHash(what, text string) *Refusal {
	if b, err := hex.DecodeString(text); err != nil || len(b) != 32 || strings.ToLower(text) != text {
		return refuse(Invalid, "%s: a SHA-256 is 64 digits from 0 to f", what)
	}
	return nil
}

func checkSummary(summary map[string]float64) *Refusal {
	if len(summary) > maxMetrics {
		return refuse(Invalid, "a summary of %d metrics; at most %d are allowed", len(summary), maxMetrics)
	}
	var wrong *Refusal // the first in order, so that every node reports the same
	first := ""
	for name, value := range summary {
		r := checkName("a metric's name", name, maxName)
		if r == nil && (math.IsNaN(value) || math.IsInf(value, 0)) {
			r = refuse(Invalid, "%s is not a finite number", name)
		}
		if r != nil && (wrong == nil || name < first) {
			wrong, first = r, name
		}
	}
	return wrong
}

// CheckTTL returns a refusal of a lease's term, in seconds, that is too short or too long.
func CheckTTL(seconds float64) *Refusal {
	if least, most := MinTTL.Seconds(), MaxTTL.Seconds(); !(seconds >= least && seconds <= most) {
		return refuse(Invalid, "a lease of %v s; %v to %v are allowed", seconds, least, most)
	}
	return nil
}

// firstOf returns the first refusal.
func firstOf(all ...*Refusal) *Refusal {
	for _, r := range all {
		if r != nil {
			return r
		}
	}
	return nil
}
