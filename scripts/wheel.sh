#!/bin/sh
# Builds the wheel of the Python package for this machine's type, with the programs, their libraries and licences inside:
#   scripts/wheel.sh VERSION [DIR]
# auditwheel finds the oldest glibc that it runs with, which becomes its tag, and fails if it needs other libraries of this machine.
set -eu
cd "$(dirname "$0")/.."
VERSION=$1
dir=${2:-dist}
REVISION=$(git rev-parse HEAD 2>/dev/null || echo unknown)
export VERSION REVISION
tools=.deps/wheel
scripts/venv.sh $tools scripts/requirements-wheel.txt "what builds wheels (6 MB)"
packages=$($tools/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

# shellcheck disable=SC2016 # the loader's own variable
RPATH='$ORIGIN/../lib' charts/images/build.sh cpu "$work/programs"
{
	printf '# Inside this wheel\n\nThe programs of dbqpg %s (%s) and the libraries that they link. The licences are in licenses/.\n\n' "$VERSION" "$REVISION"
	printf '| file | bytes |\n|---|---|\n'
	(cd "$work/programs" && find bin lib -type f -printf '| %p | %s |\n' | sort)
	printf '\n| component | version | licence | used for |\n|---|---|---|---|\n'
	grep -E '^\| (MuJoCo|Gymnasium|OpenBLAS|Preact|uPlot|three\.js) ' THIRD_PARTY_NOTICES.md | sed 's/^\(| \(Preact\|uPlot\|three\).*\)/\1 pages in the browser |/'
	printf '\n| Go module | version |\n|---|---|\n'
	go version -m "$work"/programs/bin/* | awk '$1 == "dep" { print "| " $2 " | " $3 " |" }' | sort -u
} >"$work/programs/CONTENTS.md"

(cd python && DBQPG_PROGRAMS=$work/programs DBQPG_VERSION=$VERSION "../$tools/bin/python" -m hatchling build -t wheel -d "$work")
mkdir -p "$dir"
rm -f "$dir"/dbqpg-*.whl
PATH=$packages/bin:$PATH $tools/bin/python -m auditwheel repair --wheel-dir "$dir" "$work"/dbqpg-*.whl
