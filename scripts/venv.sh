#!/bin/sh
# Makes a Python environment of packages pinned by hash, unless it is in place: scripts/venv.sh DIR REQUIREMENTS WHAT
# Neither ensurepip, which Debian has in a package of its own, nor pip's --python, which is new in 22.3, is needed: the
# environment is made without pip, and the pip that there is installs into it.
set -eu
environment=$1
requirements=$2

# What the stamp holds when the environment is in place.
wanted() {
	python3 --version
	cat "$requirements"
}

if wanted | cmp -s - "$environment/stamp"; then
	exit
fi
if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
	echo "$(python3 --version) is too old for the pinned packages: install Python 3.11 or newer" >&2
	exit 1
fi
rm -rf "$environment"
python3 -m venv --without-pip "$environment"
packages=$("$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
echo "fetching $3" >&2
if ! PIP_REQUIRE_VIRTUALENV=0 python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
	--requirement "$requirements" --require-hashes --only-binary=:all: --no-deps --target "$packages"; then
	echo "the download failed (pip's message is above): check the network or pip's index settings, then try again" >&2
	exit 1
fi
wanted >"$environment/stamp"
