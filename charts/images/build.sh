#!/bin/sh
# Builds what an image holds into a directory: charts/images/build.sh cpu|cuda DIR
#   DIR/bin       the programs
#   DIR/lib       the libraries that they need besides glibc
#   DIR/licenses  of those
set -eu
cd "$(dirname "$0")/../.."
kind=$1
out=$2
scripts/setup.sh
mkdir -p "$out/bin" "$out/lib" "$out/licenses"
case $kind in
cpu) go build -trimpath -o "$out/bin/" ./coordinator ./actor ./learner ;;
cuda)
	scripts/setup_cuda.sh
	scripts/cuda.sh go build -trimpath -tags gpu -o "$out/bin/" ./learner
	;;
*)
	echo "images: $kind: give cpu or cuda" >&2
	exit 2
	;;
esac

# Only what the programs ask for, by the names that they ask for.
needed() { readelf -d "$@" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort -u; }
for directory in .deps/mujoco/lib .deps/openblas/lib; do
	for library in $(needed "$out"/bin/*; needed "$directory"/*.so*); do
		[ ! -e "$directory/$library" ] || cp -L "$directory/$library" "$out/lib/"
	done
done
cp -r .deps/licenses/. "$out/licenses/"
cp LICENSE THIRD_PARTY_NOTICES.md "$out/licenses/"

# Nothing may be missing but what the base images have, and the driver, which the node brings.
for library in $(needed "$out"/bin/* "$out"/lib/*); do
	case $library in
	libc.so.6 | libm.so.6 | ld-linux-*.so.* | libdl.so.2 | libpthread.so.0 | librt.so.1) ;;
	libstdc++.so.6 | libgcc_s.so.1 | libgomp.so.1 | libgfortran.so.5 | libquadmath.so.0)
		cp -L "$(${CC:-gcc} -print-file-name="$library")" "$out/lib/" ;;
	*) [ -e "$out/lib/$library" ] || { echo "images: nothing brings $library" >&2; exit 1; } ;;
	esac
done
