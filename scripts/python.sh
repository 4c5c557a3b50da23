#!/bin/sh
# Checks and tests the Python package in its environment (.deps/python): builds the programs that the tests run, then
# runs mypy and pytest. Arguments are pytest's: scripts/python.sh -k policy.
set -eu
cd "$(dirname "$0")/.."

environment=.deps/python
python=$environment/bin/python
scripts/venv.sh $environment python/requirements.txt "the environment of the Python package's tests (250 MB)"
echo ../../../../../python >"$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/dbqpg.pth" # this checkout's
go build -o "$environment/programs/" ./learner ./actor ./coordinator
cd python
"../$python" -m mypy
"../$python" -m pytest "$@"
