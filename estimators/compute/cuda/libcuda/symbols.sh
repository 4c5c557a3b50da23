#!/bin/sh
# Prints symbols.h: the driver's functions that gorgonia.org/cu and package cuda refer to, less the two that
# libcuda.c defines. They are what their compiled C code leaves undefined, so no driver is needed to find them.
# Run through scripts/cuda.sh, which sets the C compiler's flags: scripts/cuda.sh sh .../symbols.sh
set -eu
empty=$(mktemp -d)
trap 'rm -rf "$empty"' EXIT
ar rcs "$empty/libcuda.a"
export CGO_LDFLAGS="-L$empty -Wl,--unresolved-symbols=ignore-all" CGO_LDFLAGS_ALLOW='-Wl,--unresolved-symbols=.*'
for package in gorgonia.org/cu github.com/dbqpg/dbqpg/estimators/compute/cuda; do
	nm "$(go list -tags gpu -export -f '{{.Export}}' $package)" 2>/dev/null
done | awk '
	$(NF) !~ /^cu[A-Z]/ || $(NF) == "cuInit" || $(NF) == "cuDeviceGetCount" { next }
	$(NF - 1) == "U" { wanted[$NF] }
	$(NF - 1) == "T" { defined[$NF] }
	END { for (name in wanted) if (!(name in defined)) print "SYMBOL(" name ")" }' | LC_ALL=C sort
