#!/bin/sh
# Vets the GPU build and runs its tests on the emulated driver, if set-up has fetched their dependencies.
set -eu
cd "$(dirname "$0")/.."
if [ ! -f .deps/cuda/include/cuda.h ]; then
	echo "test: the GPU backend is not tested: run scripts/setup.sh cuda ptx first"
	exit 0
fi
backend=./estimators/compute/cuda
# Other packages with files for GPUs; of their tests, those whose names contain GPU.
others=$(grep -rl --exclude-dir=.deps --include='*.go' '^//go:build gpu' . | xargs -n 1 dirname | sort -u | grep -vx "$backend")
scripts/cuda.sh go vet -tags gpu "$backend" $others
scripts/cuda.sh --emulator go test -tags gpu "$backend"
scripts/cuda.sh --emulator go test -tags gpu -run GPU $others
echo "test: the emulated GPU ran one golden case; make cuda-golden runs all"
