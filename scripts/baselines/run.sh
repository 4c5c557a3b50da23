#!/bin/sh
# Trains PPO of Stable-Baselines3 and TRPO of sb3-contrib on the tasks of docs/results/best, one run after the other, on one
# thread. Repeat the command after an interruption: a complete run is not made again. The first call fetches an environment
# into .deps/baselines (5.5 GB: PyTorch's wheels for Linux bring CUDA's libraries, which nothing here uses).
# --help lists the arguments; --quick shows in some minutes that everything works.
set -eu
cd "$(dirname "$0")/../.."

environment=.deps/baselines
python=$environment/bin/python
pins=scripts/baselines/requirements.txt

# What the stamp holds when the environment is in place.
wanted() {
	python3 --version
	cat $pins
}

# As in scripts/python.sh: the environment is made without pip, and the pip that there is installs into it.
create() {
	if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
		echo "baselines: $(python3 --version) is too old for the pinned environment: install Python 3.11 or newer" >&2
		exit 1
	fi
	rm -rf "$environment"
	python3 -m venv --without-pip "$environment"
	packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
	echo "baselines: fetching the environment (5.5 GB)" >&2
	if ! PIP_REQUIRE_VIRTUALENV=0 python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
		--requirement $pins --require-hashes --only-binary=:all: --no-deps --target "$packages"; then
		echo "baselines: the download failed (pip's message is above): check the network or pip's index settings, then try again" >&2
		exit 1
	fi
	wanted >"$environment/stamp"
}

if ! wanted | cmp -s - "$environment/stamp"; then
	create
fi
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
exec "$python" scripts/baselines/train.py "$@"
