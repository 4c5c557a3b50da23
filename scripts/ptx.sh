#!/bin/sh
# Compiles estimators/compute/cuda/kernels/*.cu to the .ptx beside them, without a GPU. They are part of the
# repository: run this (make ptx) after each change of a kernel.
set -eu
cd "$(dirname "$0")/.."
scripts/setup_cuda.sh --compiler
kernels=estimators/compute/cuda/kernels
for source in "$kernels"/*.cu; do
	python3 scripts/ptx.py .deps/ptx "$source" "${source%.cu}.ptx"
done
