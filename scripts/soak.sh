#!/bin/sh
# Runs the fault tests in their long form and prints a table of the faults: soak.sh [SHARE]
#
# SHARE scales the numbers of faults: 1 is the full length (hours on two cores), 0.1 a tenth. DBQPG_TEST_SEED repeats a run.
set -eu
cd "$(dirname "$0")/.."
report=$(mktemp)
trap 'rm -f "$report"' EXIT
export DBQPG_TEST_SOAK="${1:-1}" DBQPG_TEST_SOAK_REPORT="$report"
status=0
# test RUN PACKAGE...
test() {
	run=$1 && shift
	go test -count=1 -timeout 0 -v -run "$run" "$@" || status=1
}
test 'TestHistories|PowerFailures|TestDamagedRecords' ./coordinator/raftnode
test 'TestKilledLeaders|TestPartitions|TestPowerFailures|TestSkewedClocks|TestSlowVoters' ./coordinator
test 'TestStalledLearner' ./learner/collect
test 'TestKilledWorker|PowerFailures|TestRollingUpdate|TestRestoredCoordinator|TestManyKilledActors|TestManyKilledServers|TestManyHostileActors|TestNATSCluster' ./learner
echo
echo "share $DBQPG_TEST_SOAK, commit $(git rev-parse --short HEAD 2>/dev/null || echo unknown), $(go env GOVERSION), $(nproc) cores"
awk -F '\t' '{ printf "%-24s %s\n", $1, $2 }' "$report"
exit $status
