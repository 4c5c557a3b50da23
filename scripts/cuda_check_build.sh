#!/bin/sh
# Builds bin/cuda-check and bin/cuda-check.tar.gz: the tests and the benchmark of the GPU backend as programs, with the
# files and libraries that they need. The directory is self-contained: it runs on any machine with the same processor
# architecture and a C library at least as new as this one's. See cuda_check_run.sh.
set -eu
cd "$(dirname "$0")/.."
out=bin/cuda-check
rm -rf "$out"
mkdir -p "$out/lib"

# The programs find these through LD_LIBRARY_PATH, under the names by which they are linked.
cp .deps/openblas/lib/libscipy_openblas.so .deps/mujoco/lib/libmujoco.so.* "$out/lib/"

# For each package with GPU tests, a test program in a directory of the same name. Tests also read testdata of other
# packages, by paths such as ../../estimators/testdata. The learner's tests are omitted: they build programs, which needs Go.
grep -rl --exclude-dir=.deps --include='*_test.go' '^//go:build gpu' . | xargs -n 1 dirname | sort -u | grep -vx ./learner >"$out/packages"
while read -r package; do
	mkdir -p "$out/$package"
	scripts/cuda.sh go test -tags gpu -ldflags '-s -w' -c -o "$out/$package/run.test" "$package"
done <"$out/packages"
git ls-files | grep /testdata/ | grep -v '^docs/' | while read -r file; do
	mkdir -p "$out/$(dirname "$file")"
	cp "$file" "$out/$file"
done

scripts/cuda.sh go build -tags gpu -ldflags '-s -w' -o "$out/learner" ./learner
cp scripts/cuda_check_run.sh "$out/run.sh"
cp scripts/cuda_check_torch.py "$out/torch_products.py"
git describe --always --dirty >"$out/version" 2>/dev/null || echo unknown >"$out/version"
tar -C bin -czf "$out.tar.gz" cuda-check
echo "cuda-check: built bin/cuda-check ($(du -sh "$out" | cut -f 1); packed $(du -sh "$out.tar.gz" | cut -f 1)):" \
	"copy it to a machine with a GPU and run run.sh there"
