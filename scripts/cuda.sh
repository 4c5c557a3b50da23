#!/bin/sh
# Runs a command in an environment for builds with the tag gpu (with the driver's header and libcuda.a):
#
#	scripts/cuda.sh go build -tags gpu ./learner
#	scripts/cuda.sh --emulator go test -tags gpu ./estimators/compute/cuda/
#
# With --emulator the command uses the emulated driver and cuBLAS of estimators/compute/cuda/emulator, so that it finds a
# device on a machine without a GPU. scripts/setup.sh cuda fetches the header.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
deps=$root/.deps/cuda
source=$root/estimators/compute/cuda
if [ ! -f "$deps/include/cuda.h" ]; then
	echo "cuda: the driver's header is missing: run scripts/setup.sh cuda" >&2
	exit 1
fi

# newer FILE SOURCE...: whether a source is newer than the file, or the file does not exist.
newer() {
	target=$1
	shift
	[ ! -e "$target" ] || [ -n "$(find "$@" -newer "$target" | head -n 1)" ]
}

# The linker searches this directory first, so that it does not use the stub of a CUDA toolkit.
if newer "$deps/lib/libcuda.a" "$source/libcuda"; then
	work=$(mktemp -d "$deps/lib-XXXXXX")
	trap 'rm -rf "$work"' EXIT
	${CC:-gcc} -std=gnu11 -O2 -Wall -Wextra -Werror -fPIC -c "$source/libcuda/libcuda.c" -o "$work/libcuda.o"
	ar rcs "$work/libcuda.a" "$work/libcuda.o"
	mkdir -p "$deps/lib"
	mv "$work/libcuda.a" "$deps/lib/libcuda.a"
	rm -rf "$work"
fi

if [ "${1-}" = --emulator ]; then
	shift
	"$source/emulator/build.sh" "$deps/emulator"
	export CUDA_EMULATOR="$deps/emulator"
	export LD_LIBRARY_PATH="$deps/emulator${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
fi

export CGO_CFLAGS="${CGO_CFLAGS--O2 -g} -I$deps/include -w"
export CGO_LDFLAGS="-L$deps/lib ${CGO_LDFLAGS--O2 -g} -ldl"
exec "$@"
