#!/bin/sh
# Fetches the dependencies of GPU builds into .deps, which git ignores: the driver's header (3 MB) and, with --compiler,
# the compiler and checker of the kernels (130 MB). Needs neither a GPU, nor a toolkit, nor root. Does nothing if everything
# is in place.
set -eu
cd "$(dirname "$0")/.."
scripts/setup.sh

machine=$(uname -m)
trap 'rm -rf "${work:-}"' EXIT
trap 'exit 130' INT TERM

# fetch PART DESCRIPTION: unpacks the packages of scripts/requirements-PART.txt into .deps/PART.
fetch() {
	stamp=".deps/$1/stamp"
	wanted=$(echo "$machine" && cat "scripts/requirements-$1.txt" scripts/unpack_cuda.py)
	[ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$wanted" ] || return 0
	work=$(mktemp -d .deps-XXXXXX)
	echo "setup: fetching $2"
	if ! PIP_REQUIRE_VIRTUALENV=0 python3 -m pip download --quiet --disable-pip-version-check \
		--requirement "scripts/requirements-$1.txt" --require-hashes --only-binary=:all: --no-deps \
		--platform "manylinux_2_17_$machine" --platform "manylinux2014_$machine" --platform "manylinux2010_$machine" \
		--dest "$work/wheels"; then
		echo "setup: the download failed (pip's message is above): check the network or pip's index settings, then try again" >&2
		exit 1
	fi
	python3 scripts/unpack_cuda.py "$work/wheels" "$work/part"
	echo "$wanted" >"$work/part/stamp"
	[ ! -e ".deps/$1" ] || mv ".deps/$1" "$work/old"
	mv "$work/part" ".deps/$1"
	rm -rf "$work"
	echo "setup: done"
}

fetch cuda "the header of NVIDIA's driver (3 MB)"
case "${1-}" in
"") ;;
--compiler) fetch ptx "the compiler of the GPU kernels (130 MB)" ;;
*)
	echo "usage: scripts/setup_cuda.sh [--compiler]" >&2
	exit 2
	;;
esac
