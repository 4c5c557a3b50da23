#!/bin/sh
# What processes and runs take: the peak resident memory of a worker, an actor, the NATS server and a coordinator, the
# processors' seconds of an iteration, and the bytes that a run leaves. docs/results/sizes.md is made from its output.
#
# TASKS, ITERATIONS, BATCH, SEED: of the runs, with the default estimator, on the CPU. SLOTS: numbers of slots of the one
# actor, each in a run of its own. RUNS: that the coordinator holds in the end, in thousands. PORT: the first of four on 127.0.0.1.
set -eu
cd "$(dirname "$0")/.."
TASKS=${TASKS:-Swimmer-v2 HalfCheetah-v2 Humanoid-v2 HumanoidStandup-v2} SLOTS=${SLOTS:-1 4}
ITERATIONS=${ITERATIONS:-10} BATCH=${BATCH:-15000} SEED=${SEED:-1} RUNS=${RUNS:-10} PORT=${PORT:-17170}
DIR=$(mktemp -d)
BIN=$DIR/bin

pids=
end() {
	trap - EXIT INT TERM
	for pid in $pids; do kill "$pid" 2>/dev/null || true; done
	wait
	rm -rf "$DIR"
}
trap 'end; exit 130' INT TERM
trap 'status=$?; [ $status -eq 0 ] || tail -n 3 "$DIR"/*.log >&2; end; exit $status' EXIT

# start NAME COMMAND... starts a process; its number is then in $pid.
start() {
	name=$1 && shift
	"$@" >>"$DIR/$name.log" 2>&1 &
	pid=$! pids="$pids $!"
}

peak() { awk '$1 == "VmHWM:" { printf "%d", $2 / 1024 + 0.5 }' "/proc/$1/status"; } # MiB
seconds() { awk -v hz="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); print ($12 + $13) / hz }' "/proc/$1/stat"; } # of processors
bytes() { find "$@" -type f -printf '%s\n' 2>/dev/null | awk '{ all += $1 } END { printf "%.0f", all / 1000 }'; } # kB

# watch_scratch notes the most that was ever in a directory, in kB.
watch_scratch() {
	most=0
	while sleep 0.2; do
		now=$(bytes "$1")
		[ "$now" -le "$most" ] || { most=$now && echo "$now" >"$2"; }
	done
}

go build -o "$BIN/" ./coordinator ./learner ./actor
go build -o "$BIN/nats-server" github.com/nats-io/nats-server/v2
DBQPG_COORDINATOR=http://127.0.0.1:$PORT
export DBQPG_COORDINATOR
start coordinator "$BIN/coordinator" serve --data-dir "$DIR/data" --http "127.0.0.1:$PORT" --raft "127.0.0.1:$((PORT + 1))"
coordinator=$pid
until "$BIN/coordinator" nodes >/dev/null 2>&1; do sleep 0.2; done
idle=$(peak "$coordinator")
printf 'max_payload: 8MB\njetstream { store_dir: "%s", max_mem: 256MB, max_file: 1MB }\n' "$DIR/nats" >"$DIR/nats.conf"
start nats "$BIN/nats-server" -c "$DIR/nats.conf" -a 127.0.0.1 -p $((PORT + 2))
nats=$pid

# train NAME TASK SLOTS ITERATIONS trains one run with a new worker and a new actor, and prints a row.
train() {
	mkdir -p "$DIR/scratch"
	start worker env TMPDIR="$DIR/scratch" "$BIN/learner" --worker --worker-name "$1" --checkpoints "$DIR/runs" \
		--nats "nats://127.0.0.1:$((PORT + 2))" --actors 0 --device cpu
	worker=$pid
	start actor "$BIN/actor" --nats "nats://127.0.0.1:$((PORT + 2))" --slots "$3"
	actor=$pid
	echo 0 >"$DIR/most"
	watch_scratch "$DIR/scratch" "$DIR/most" & watcher=$!
	printf 'name: %s\ntasks: %s\nseeds: %s\noverrides: {iterations: %s, batch: %s}\n' "$1" "$2" "$SEED" "$4" "$BATCH" |
		"$BIN/coordinator" submit - >"$DIR/submit.log"
	"$BIN/coordinator" watch "$1" >"$DIR/watch.log"
	kill "$watcher" && wait "$watcher" 2>/dev/null || true
	run=$(echo "$DIR/runs/$1"/*/*/epoch-1)
	printf '| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n' "$2" "$3" "$4" "$(peak "$worker")" "$(peak "$actor")" \
		"$(seconds "$worker" | awk -v n="$4" '{ printf "%.1f", $1 / n }')" "$(seconds "$actor" | awk -v n="$4" '{ printf "%.1f", $1 / n }')" \
		"$(bytes "$(ls -d "$run"/checkpoints/iteration-* | tail -1)")" "$(ls "$run/checkpoints" | wc -l)" "$(bytes "$run")" "$(cat "$DIR/most")"
	ls -lR "$run" >"$DIR/$1.ls"
	[ -z "${LIST:-}" ] || cat "$DIR/$1.ls" >&2
	kill "$worker" "$actor"
	wait "$worker" "$actor" || true
}

echo "| task | slots | iterations | worker (MiB) | actor (MiB) | worker (core-s an iteration) | actor (core-s an iteration) | a checkpoint (kB) | files kept | the run (kB) | scratch at most (kB) |"
echo '|---|---|---|---|---|---|---|---|---|---|---|'
number=0
for task in $TASKS; do
	for slots in $SLOTS; do
		number=$((number + 1))
		train "r$number" "$task" "$slots" "$ITERATIONS"
	done
	number=$((number + 1))
	train "r$number" "$task" "$slots" 1
done
echo
echo "NATS server after all of that: $(peak $nats) MiB, $(seconds $nats) s of processors"
i=0
while [ $i -lt "$RUNS" ]; do
	i=$((i + 1))
	printf 'name: many%s\ntasks: Swimmer-v2\nseeds: 1-1000\n' $i | "$BIN/coordinator" submit - >"$DIR/submit.log"
done
"$BIN/coordinator" list many1 >"$DIR/list.log"
echo "coordinator: $idle MiB without a run, $(peak $coordinator) MiB after $RUNS,000 runs, and $(bytes "$DIR/data") kB on disk"
