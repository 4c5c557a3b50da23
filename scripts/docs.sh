#!/bin/sh
# Builds the documentation's site into site/, in an environment of its own (.deps/docs). A link that leads nowhere is an error. The site has
# all that it needs: a browser asks nobody else.
set -eu
cd "$(dirname "$0")/.."
scripts/venv.sh .deps/docs scripts/requirements-docs.txt "the generator of the documentation's site (160 MB)"
go run ./internal/web/build --diagrams
NO_MKDOCS_2_WARNING=1 .deps/docs/bin/python -m mkdocs --quiet build --clean
echo "docs: open site/index.html"
