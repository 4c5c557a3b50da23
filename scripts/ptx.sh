#!/bin/sh
# Compiles estimators/compute/cuda/kernels/*.cu to the .ptx beside them. They are part of the repository: run
# this (make ptx) after each change of a kernel. Needs what scripts/setup_cuda.sh fetches, and no GPU.
set -eu
cd "$(dirname "$0")/.."
kernels=estimators/compute/cuda/kernels
for source in "$kernels"/*.cu; do
	python3 scripts/ptx.py .deps/cuda "$source" "${source%.cu}.ptx"
done
