#!/bin/sh
# build.sh FOLDER: makes FOLDER/libcuda.so.1 and FOLDER/libcublas.so.12 (see README.md), if a source is newer.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
include=$(cd "$here/../../../.." && pwd)/.deps/cuda/include
mkdir -p "$1"
out=$(cd "$1" && pwd)
[ ! -e "$out/libcublas.so.12" ] || [ -n "$(find "$here" "$here/../kernels" -newer "$out/libcublas.so.12" | head -n 1)" ] || exit 0

work=$(mktemp -d "$out/build-XXXXXX")
trap 'rm -rf "$work"' EXIT
flags="-std=c++17 -O2 -fPIC -fvisibility=hidden -fno-fast-math -ffp-contract=off -Wall -Wno-unused-function -I$include -I$here"
compile() { # SOURCE OBJECT
	${CXX:-g++} $flags -c "$1" -o "$2"
}

# Each kernel source, with a line in the table for each of its kernels.
for kernels in "$here"/../kernels/*.cu; do
	name=$(basename "$kernels" .cu)
	{
		printf '#include "device.h"\n#include "%s"\n#include "table.h"\n' "$kernels"
		sed -n 's/^extern "C" __global__ void \([a-z_0-9A-Z]*\)(.*/KERNEL(\1)/p' "$kernels"
	} >"$work/kernels_$name.cpp"
	compile "$work/kernels_$name.cpp" "$work/kernels_$name.o"
done
for part in kernels memory driver; do
	compile "$here/$part.cpp" "$work/$part.o"
done
${CXX:-g++} -shared -Wl,-soname,libcuda.so.1 -o "$work/libcuda.so.1" "$work"/*.o -lpthread
${CXX:-g++} $flags -O3 -shared -Wl,-soname,libcublas.so.12 -o "$work/libcublas.so.12" "$here/cublas.cpp" \
	"$work/libcuda.so.1"
mv "$work/libcuda.so.1" "$out/"
mv "$work/libcublas.so.12" "$out/"
