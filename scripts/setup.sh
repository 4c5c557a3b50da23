#!/bin/sh
# Fetches what builds need besides Go modules, and says what is missing: scripts/setup.sh [cuda] [ptx] [lint] (internal/setup). Needs no
# root, and does nothing if everything is in place.
set -eu
cd "$(dirname "$0")/.."
need=$(sed -n 's/^go //p' go.mod)
fail() {
	echo "setup: $*: install Go $need or newer from https://go.dev/dl" >&2
	exit 1
}
command -v go >/dev/null || fail "go not found"
# With GOTOOLCHAIN=auto, Go 1.21 and newer fetch the version that go.mod names.
have=$(go env GOVERSION 2>/dev/null) || fail "go does not run here ($(go env GOVERSION 2>&1 | tail -n 1))"
have=${have#go}
[ "$(printf '%s\n%s\n' "$need" "${have%% *}" | sort -V | head -n 1)" = "$need" ] || fail "go is $have"
exec go run ./internal/setup "$@"
