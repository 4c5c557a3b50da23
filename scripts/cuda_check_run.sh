#!/bin/sh
# Tests and measures the GPU backend on this machine, and prints a report that it also writes to cuda-check-report.txt in
# the working directory. Requires NVIDIA's driver and cuBLAS, but neither Go nor the CUDA toolkit. Fails if a test fails.
# If python3 has PyTorch, its figures are added. CHECK=quick omits the measurements.
set -u
here=$(cd "$(dirname "$0")" && pwd)
report=$PWD/cuda-check-report.txt
failed=$(mktemp)
trap 'rm -f "$failed"' EXIT

# Where toolkits and PyTorch install cuBLAS, after the directories that the machine is configured to search.
python_cublas=$(python3 -c '
import glob, nvidia, os
print(":".join(os.path.dirname(f) for p in nvidia.__path__ for f in glob.glob(p + "/*/lib/libcublas.so.*")))' 2>/dev/null)
LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}:/usr/local/cuda/lib64${python_cublas:+:$python_cublas}
export LD_LIBRARY_PATH

section() { printf '\n## %s\n\n' "$1"; }

# attempt COMMAND...: runs the command and records a failure.
attempt() {
	"$@" 2>&1
	code=$?
	[ $code -eq 0 ] || echo "FAILED (exit $code): $*" | tee -a "$failed"
}

machine() {
	section "Machine"
	date -u '+%Y-%m-%d %H:%M UTC'
	echo "program version $(cat "$here/version")"
	uname -srm
	sed -n 's/^model name.*: //p' /proc/cpuinfo | sort | uniq -c
	if command -v nvidia-smi >/dev/null; then
		nvidia-smi --format=csv --query-gpu=index,name,driver_version,memory.total,memory.used,compute_cap,power.limit,clocks.max.sm,clocks.max.mem,ecc.mode.current
	else
		echo "nvidia-smi not found"
	fi
}

tests() {
	while read -r package; do
		section "Tests of ${package#./}"
		only=GPU # other packages also have tests without a GPU
		[ "$package" != ./estimators/compute/cuda ] || only=.
		# Print the result of each test, and the full output of those that failed.
		(cd "$here/$package" && attempt ./run.test -test.run "$only" -test.v -test.timeout 20m) |
			grep -vE '^=== |\[rapid\] OK'
	done <"$here/packages"
}

measurements() {
	section "Operations"
	(cd "$here/estimators/compute/cuda" && attempt ./run.test -test.run '^$' -test.bench . -test.timeout 20m)
	for hidden in 64,64 256,256; do
		section "Updates, hidden layers $hidden"
		attempt "$here/learner" bench --device cuda --env HumanoidStandup-v2 --updates-only \
			--sizes 5000,15000,45000,150000 --set "\"hidden=$hidden\""
	done
	section "The same products in PyTorch"
	if python3 -c 'import torch; assert torch.cuda.is_available()' 2>/dev/null; then
		attempt python3 "$here/torch_products.py"
	else
		echo "python3 has no PyTorch with access to a GPU"
	fi
}

{
	echo "# cuda-check"
	machine
	tests
	[ "${CHECK-}" = quick ] || measurements
	section "Verdict"
	if [ -s "$failed" ]; then
		cat "$failed"
	else
		echo "all passed"
	fi
} | tee "$report"
echo
echo "cuda-check: wrote $report"
[ ! -s "$failed" ]
