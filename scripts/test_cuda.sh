#!/bin/sh
# Vets the build for GPUs and runs its tests on the emulated driver, if set-up has fetched what they need.
set -eu
cd "$(dirname "$0")/.."
if [ ! -f .deps/cuda/include/cuda.h ]; then
	echo "test: the GPU backend is not tested: run scripts/setup_cuda.sh --compiler first"
	exit 0
fi
tagged=$(grep -rl --include='*.go' '^//go:build cuda' . | xargs -n 1 dirname | sort -u)
scripts/cuda.sh go vet -tags cuda $tagged
# Nothing here may take the emulated device for a real one, hence a run of its own.
scripts/cuda.sh --emulator go test -tags cuda $tagged
