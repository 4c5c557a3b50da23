#!/bin/sh
# Compiles each estimators/compute/cuda/kernels/*.cu to a .ptx file beside it; no GPU is needed. The .ptx files are part
# of the repository: run this (make ptx) after changing a kernel.
set -eu
cd "$(dirname "$0")/.."
scripts/setup.sh cuda ptx
kernels=estimators/compute/cuda/kernels
for source in "$kernels"/*.cu; do
	python3 scripts/ptx.py .deps/ptx "$source" "${source%.cu}.ptx"
done
