#!/bin/sh
# Fetches MuJoCo, OpenBLAS and Gymnasium's MJCF models into .deps/ and sim/tasks/assets/, both ignored by git.
# Needs no root, does nothing if everything is in place, and reports each missing prerequisite on a line of its own.
set -eu
cd "$(dirname "$0")/.."

problems=0
missing() {
	echo "setup: $*" >&2
	problems=1
}

check_go() {
	need=$(sed -n 's/^go //p' go.mod)
	if ! command -v go >/dev/null; then
		missing "go not found: install Go $need or newer from https://go.dev/dl"
		return
	fi
	# With GOTOOLCHAIN=auto, Go 1.21 and newer fetch the version that go.mod names.
	if ! have=$(go env GOVERSION 2>/dev/null); then
		missing "go does not run here ($(go env GOVERSION 2>&1 | tail -n 1)): install Go $need or newer from https://go.dev/dl"
		return
	fi
	have=${have#go}
	oldest=$(printf '%s\n%s\n' "$need" "${have%% *}" | sort -V | head -n 1)
	[ "$oldest" = "$need" ] || missing "go is $have: install Go $need or newer from https://go.dev/dl"
	compiler=$(go env CC)
	if ! command -v "${compiler%% *}" >/dev/null; then
		missing "C compiler $compiler not found: install gcc (Debian, Ubuntu: apt install build-essential)"
	elif ! echo '#include <stdlib.h>' | $compiler -E - >/dev/null 2>&1; then
		missing "C headers not found: install libc6-dev (Debian, Ubuntu: apt install build-essential)"
	elif [ "$(go env CGO_ENABLED)" != 1 ]; then
		missing "CGO_ENABLED is 0: set it to 1 (go env -w CGO_ENABLED=1), MuJoCo is called through cgo"
	fi
}

check_python() {
	if ! command -v python3 >/dev/null; then
		missing "python3 not found: install Python 3 with pip (Debian, Ubuntu: apt install python3-pip)"
	elif ! python3 -m pip --version >/dev/null 2>&1; then
		missing "pip for python3 not found: install it (Debian, Ubuntu: apt install python3-pip)"
	fi
}

check_machine() {
	case "$(uname -s)" in
	Linux) ;;
	*) missing "$(uname -s) is not supported: use Linux on x86_64 or aarch64" ;;
	esac
	case "$machine" in
	x86_64 | aarch64) ;;
	*) missing "machine type $machine is not supported: use Linux on x86_64 or aarch64" ;;
	esac
}

# Prints the contents of the stamp when everything is in place: the pins, the recipe and the machine type.
wanted() {
	echo "$machine"
	cat scripts/requirements.txt scripts/unpack.py
}

up_to_date() {
	[ -f .deps/stamp ] && wanted | cmp -s - .deps/stamp &&
		[ -e .deps/mujoco/lib/libmujoco.so ] && [ -e .deps/openblas/lib/libscipy_openblas.so ] &&
		[ "$(find sim/tasks/assets -name '*.xml' | wc -l)" -ge 14 ]
}

download() {
	PIP_REQUIRE_VIRTUALENV=0 python3 -m pip download --quiet --disable-pip-version-check \
		--requirement scripts/requirements.txt --require-hashes --only-binary=:all: --no-deps \
		--python-version 3.11 --implementation cp --abi cp311 --platform "manylinux_2_28_$machine" \
		--dest "$1"
}

machine=$(uname -m)
check_machine
check_go
up_to_date || check_python
[ "$problems" -eq 0 ] || exit 1
up_to_date && exit 0

work=$(mktemp -d .deps-XXXXXX)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
echo "setup: fetching MuJoCo, OpenBLAS and the MJCF models (45 MB)"
if ! download "$work/wheels"; then
	echo "setup: the download failed (pip's message is above): check the network or pip's index settings, then run make setup again" >&2
	exit 1
fi
python3 scripts/unpack.py "$work/wheels" "$work/deps" "$work/assets"
mv "$work"/assets/*.xml sim/tasks/assets/
# Replace only these parts of .deps, which also holds the results of longer builds. Without the stamp, set-up is incomplete.
mkdir -p .deps "$work/old"
rm -f .deps/stamp
for part in "$work"/deps/*; do
	[ ! -e ".deps/${part##*/}" ] || mv ".deps/${part##*/}" "$work/old/"
	mv "$part" .deps/
done
wanted >"$work/stamp"
mv "$work/stamp" .deps/stamp
echo "setup: done"
