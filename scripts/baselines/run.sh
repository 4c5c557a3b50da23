#!/bin/sh
# Trains PPO of Stable-Baselines3 and TRPO of sb3-contrib on the tasks of docs/results/best, one run after the other, on one
# thread. Repeat the command after an interruption: a complete run is not made again. The first call fetches an environment
# into .deps/baselines (5.5 GB: PyTorch's wheels for Linux bring CUDA's libraries, which nothing here uses).
# --help lists the arguments; --quick shows in some minutes that everything works.
set -eu
cd "$(dirname "$0")/../.."

environment=.deps/baselines
python=$environment/bin/python
scripts/venv.sh $environment scripts/baselines/requirements.txt "the environment of the baselines (5.5 GB)"
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
exec "$python" scripts/baselines/train.py "$@"
