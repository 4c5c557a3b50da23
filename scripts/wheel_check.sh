#!/bin/sh
# Tests a wheel as a new user has it, in an empty environment, elsewhere than in this checkout and without Go: scripts/wheel_check.sh WHEEL
# It installs Gymnasium, trains 20 iterations, evaluates, and plays an episode from Python; and prints how long each takes.
set -eu
wheel=$(readlink -f "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
cd "$work"
unset LD_LIBRARY_PATH DBQPG_PROGRAMS PYTHONPATH
step() {
	start=$(date +%s)
	"$@" >output 2>&1 || { cat output; echo "wheel-check: failed: $*" >&2; exit 1; }
	printf '%4d s  %s\n' $(($(date +%s) - start)) "$*"
}
step python3 -m venv python
PATH=$work/python/bin:/usr/bin:/bin
step pip install --disable-pip-version-check "${wheel}[gymnasium,pandas]"
for program in learner actor coordinator dbqpg; do
	"$program" --version
done
step dbqpg train --env InvertedPendulum-v5 --iterations 20 --run-dir run
step dbqpg evaluate run --episodes 10
tail -n 4 output
cat >play.py <<'END'
import dbqpg, gymnasium, importlib.metadata

assert dbqpg.__version__ == importlib.metadata.version("dbqpg")
policy = dbqpg.load("run")
env = gymnasium.make(policy.task)
observation, _ = env.reset(seed=1)
total, done = 0.0, False
while not done:
    observation, reward, terminated, truncated, _ = env.step(policy(observation))
    total, done = total + reward, terminated or truncated
print("an episode in Gymnasium:", total)
rows = list(dbqpg.train(policy.task, seed=2, iterations=3, run_dir="run2", quiet=True))
frame = dbqpg.read_runs(".").to_pandas()
assert [row["iteration"] for row in rows] == [0, 1, 2] and len(frame) == 23, (rows, frame)
END
step python play.py
cat output
du -sh "$wheel" python/lib/python3*/site-packages/dbqpg | sed "s|$work/||"
