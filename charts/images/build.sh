#!/bin/sh
# Builds the contents of the images: charts/images/build.sh cpu|cuda DIR
#   DIR/bin       the programs
#   DIR/lib       the libraries that they need besides glibc
#   DIR/licenses  their licences
set -eu
cd "$(dirname "$0")/../.."
kind=$1
out=$2
scripts/setup.sh
mkdir -p "$out/bin" "$out/lib" "$out/licenses"
commandline=github.com/dbqpg/dbqpg/internal/commandline
# RPATH is where the programs look for libraries, unless LD_LIBRARY_PATH says it. The tag keeps them from looking in this directory.
flags="-s -w ${RPATH:+-extldflags=-Wl,-rpath,$RPATH} -X $commandline.release=${VERSION:-} -X $commandline.commit=${REVISION:-}"
case $kind in
cpu)
	CGO_ENABLED=0 go build -trimpath -ldflags "$flags" -o "$out/bin/" ./coordinator # a static program
	go build -trimpath -tags packaged -ldflags "$flags" -o "$out/bin/" ./actor ./learner
	;;
cuda)
	scripts/setup.sh cuda
	scripts/cuda.sh go build -trimpath -ldflags "$flags" -tags gpu,packaged -o "$out/bin/" ./learner
	;;
*)
	echo "images: $kind: must be cpu or cuda" >&2
	exit 2
	;;
esac

paths=$(readelf -d "$out"/bin/* | sed -n 's/.*(\(RPATH\|RUNPATH\)).*\[\(.*\)\]/\2/p' | sort -u)
[ "$paths" = "${RPATH:-}" ] || { echo "images: the programs look for libraries in $paths" >&2; exit 1; }

# Copy only the libraries that the programs need, under the names by which they are linked.
needed() { readelf -d "$@" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort -u; }
for directory in .deps/mujoco/lib .deps/openblas/lib; do
	for library in $(needed "$out"/bin/*; needed "$directory"/*.so*); do
		[ ! -e "$directory/$library" ] || cp -L "$directory/$library" "$out/lib/"
	done
done
cp -r .deps/licenses/. "$out/licenses/"
cp LICENSE THIRD_PARTY_NOTICES.md "$out/licenses/"
cp "$(go env GOROOT)/LICENSE" "$out/licenses/go"
go version -m "$out"/bin/* | awk '$1 == "dep" { print $2 }' | sort -u | xargs go list -m -f '{{.Path}} {{.Dir}}' | while read -r module place; do
	mkdir -p "$out/licenses/modules/$module"
	find "$place" -maxdepth 1 -type f '(' -iname '*licen[cs]e*' -o -iname 'copying*' -o -iname 'notice*' ')' \
		-exec cp -t "$out/licenses/modules/$module" '{}' +
done

# Every other library must come from the base images, except the driver, which the node provides.
for library in $(needed "$out"/bin/* "$out"/lib/*); do
	case $library in
	libc.so.6 | libm.so.6 | ld-linux-*.so.* | libdl.so.2 | libpthread.so.0 | librt.so.1) ;;
	libstdc++.so.6 | libgcc_s.so.1 | libgomp.so.1 | libgfortran.so.5 | libquadmath.so.0)
		cp -L "$(${CC:-gcc} -print-file-name="$library")" "$out/lib/" ;;
	*) [ -e "$out/lib/$library" ] || { echo "images: $library is neither here nor in the base images" >&2; exit 1; } ;;
	esac
done
