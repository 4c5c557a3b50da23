#!/bin/sh
# Builds the documentation's site into site/, in an environment of its own (.deps/docs, 160 MB). A link that leads nowhere is an error. The
# site has all that it needs: a browser asks nobody else.
set -eu
cd "$(dirname "$0")/.."
docs=.deps/docs
if ! cmp -s scripts/requirements-docs.txt "$docs/stamp"; then
	rm -rf "$docs"
	python3 -m venv "$docs"
	if ! "$docs/bin/pip" install --quiet --disable-pip-version-check --require-hashes --only-binary=:all: --requirement scripts/requirements-docs.txt; then
		echo "docs: the download failed (pip's message is above): check the network or pip's index settings, then try again" >&2
		exit 1
	fi
	cp scripts/requirements-docs.txt "$docs/stamp"
fi
go run ./internal/web/build --diagrams
NO_MKDOCS_2_WARNING=1 "$docs/bin/mkdocs" --quiet build --clean
echo "docs: open site/index.html"
