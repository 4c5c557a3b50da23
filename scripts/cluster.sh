#!/bin/sh
# A cluster on this machine: three coordinators, a NATS server, two workers and four actors, with certificates and keys,
# train two short runs while a worker and the coordinators' leader are killed. docs/cluster.md explains each step.
#
# ITERATIONS, BATCH: of each run. DIR: for all files; by default a temporary directory, removed at the end.
# PORTS: seven ports on 127.0.0.1, separated by spaces. BIN: the programs' directory; by default they are built.
set -eu
cd "$(dirname "$0")/.."
ITERATIONS=${ITERATIONS:-30} BATCH=${BATCH:-5000} BIN=${BIN:-}
PORTS=${PORTS:-17070 17071 17072 17073 17074 17075 17076} # three for the coordinators' API, three for raft, one for NATS
port() { echo "$PORTS" | cut -d ' ' -f "$1"; }

pids=
end() {
	trap - EXIT INT TERM
	for pid in $pids; do kill "$pid" 2>/dev/null || true; done
	wait
	[ -n "${keep:-}" ] || rm -rf "$DIR"
}
trap 'end; exit 130' INT TERM
trap 'status=$?; end; exit $status' EXIT
if [ -n "${DIR:-}" ]; then keep=1 && mkdir -p "$DIR"; else DIR=$(mktemp -d); fi
DIR=$(cd "$DIR" && pwd)

say() { printf '\n== %s\n' "$*"; }

# start NAME COMMAND... starts a process that logs to $DIR/NAME.log and sets $pid to its process ID.
start() {
	name=$1 && shift
	"$@" >>"$DIR/$name.log" 2>&1 &
	pid=$! pids="$pids $!"
	echo "$name is process $pid"
}

# await WHAT COMMAND... waits until a command succeeds, and fails if a process exits.
await() {
	what=$1 && shift
	tries=0
	until "$@" >/dev/null 2>&1; do
		tries=$((tries + 1))
		[ $tries -lt 600 ] || fail "$what: not in five minutes"
		for pid in $pids; do kill -0 "$pid" 2>/dev/null || fail "$what: process $pid has exited"; done
		sleep 0.5
	done
}

fail() {
	tail -n 3 "$DIR"/*.log >&2
	echo "$1; the logs are in $DIR" >&2
	keep=1
	exit 1
}

say "1. The programs"
if [ -z "$BIN" ]; then
	BIN=$DIR/bin
	go build -o "$BIN/" ./coordinator ./learner ./actor
	go build -o "$BIN/nats-server" github.com/nats-io/nats-server/v2
fi
ls "$BIN"

say "2. Certificates and keys"
C=$DIR/credentials
"$BIN/coordinator" credentials create --out "$C"

say "3. Three coordinators"
PEERS=n1=127.0.0.1:$(port 4),n2=127.0.0.1:$(port 5),n3=127.0.0.1:$(port 6)
coordinator() { # NUMBER
	start "coordinator$1" "$BIN/coordinator" serve --node-id "n$1" --data-dir "$DIR/data$1" --credentials "$C/coordinator" \
		--http "127.0.0.1:$(port "$1")" --raft "127.0.0.1:$(port $(($1 + 3)))" --peers "$PEERS"
	eval "coordinator$1=$pid"
}
coordinator 1
coordinator 2
coordinator 3
DBQPG_COORDINATOR=https://127.0.0.1:$(port 1),https://127.0.0.1:$(port 2),https://127.0.0.1:$(port 3)
export DBQPG_COORDINATOR
ask() { DBQPG_CREDENTIALS="$C/operator" "$BIN/coordinator" "$@"; }
await "a leader among the coordinators" ask nodes
ask nodes

say "4. A NATS server"
start nats sh -c 'cd "$1" && exec "$2" -c nats-server.conf -a 127.0.0.1 -p "$3"' - "$C/nats" "$BIN/nats-server" "$(port 7)"
NATS=tls://127.0.0.1:$(port 7)

say "5. Two workers"
learner() { # NUMBER
	start "learner$1" "$BIN/learner" --worker --worker-name "learner$1" --checkpoints "$DIR/runs" --lease-term 2s \
		--nats "$NATS" --actors 0 --credentials "$C/learner"
}
learner 1 && l1=$pid
learner 2

say "6. Four actors"
for i in 1 2 3 4; do
	start "actor$i" "$BIN/actor" --nats "$NATS" --slots 1 --credentials "$C/actor"
done

say "7. A sweep of two runs"
cat >"$DIR/sweep.yaml" <<SWEEP
name: walk
tasks: Swimmer-v2
seeds: 1-2
overrides: {iterations: $ITERATIONS, batch: $BATCH}
SWEEP
ask submit "$DIR/sweep.yaml"
both() { [ "$(ask list walk | grep -c " running  *[1-9]")" -eq 2 ]; } # both workers have a run and have finished an iteration
await "both runs under way" both
ask list walk

say "8. A worker is killed and restarted"
kill -KILL "$l1"
echo "killed learner1: once its lease has expired, its run resumes from the last commit"
learner 1

say "9. The coordinators' leader is killed and restarted"
leads=$(ask nodes | awk '$2 == "leader" { print substr($1, 2) }')
eval "kill -KILL \$coordinator$leads"
echo "killed n$leads"
ask nodes
coordinator "$leads"

say "10. The runs finish"
ask watch walk
ask list walk
[ "$(ask list walk | grep -c " done ")" -eq 2 ]
"$BIN/learner" report --last 3 "$DIR"/runs/walk/*/*
