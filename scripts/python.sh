#!/bin/sh
# Checks and tests the Python package: sets up its environment in .deps/python (250 MB; quick when it is there), builds
# the programs that the tests run, then runs mypy and pytest. Arguments are pytest's: scripts/python.sh -k policy.
set -eu
cd "$(dirname "$0")/.."

environment=.deps/python
python=$environment/bin/python

# What the stamp holds when the environment is in place.
wanted() {
	python3 --version
	cat python/requirements.txt
}

# Neither ensurepip, which Debian has in a package of its own, nor pip's --python, which is new in 22.3, is needed: the
# environment is made without pip, and the pip that there is installs into it.
create() {
	if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
		echo "python: $(python3 --version) is too old for the pinned test environment: install Python 3.11 or newer (the package itself needs 3.10)" >&2
		exit 1
	fi
	rm -rf "$environment"
	python3 -m venv --without-pip "$environment"
	packages=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
	echo "python: fetching the environment of the package's tests (250 MB)"
	if ! PIP_REQUIRE_VIRTUALENV=0 python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
		--requirement python/requirements.txt --require-hashes --only-binary=:all: --no-deps --target "$packages"; then
		echo "python: the download failed (pip's message is above): check the network or pip's index settings, then try again" >&2
		exit 1
	fi
	echo ../../../../../python >"$packages/dbqpg.pth" # the package, as it is in this checkout
	wanted >"$environment/stamp"
}

if ! wanted | cmp -s - "$environment/stamp"; then
	create
fi
go build -o "$environment/programs/" ./learner ./actor ./coordinator
cd python
"../$python" -m mypy
"../$python" -m pytest "$@"
