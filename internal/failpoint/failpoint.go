//go:build !failpoint

// Package failpoint marks points of a program's work at which tests kill or stop it, and lets tests skew its clock.
// Only programs built with the tag failpoint do so (package failpointtest); in others the compiler removes the calls.
package failpoint

import "time"

// Hit marks the point of that name.
func Hit(string) {}

// Now is [time.Now].
func Now() time.Time { return time.Now() }
