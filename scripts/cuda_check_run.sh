#!/bin/sh
# Tests and measures the GPU backend on this machine and writes one report, cuda-check-report.txt in the working
# folder, which it prints as well. Needs NVIDIA's driver and cuBLAS, and neither Go nor a toolkit. Fails if a test
# does. PyTorch's figures are added where python3 has it. CHECK=quick leaves the measurements out.
set -u
here=$(cd "$(dirname "$0")" && pwd)
report=$PWD/cuda-check-report.txt
failed=$(mktemp)
trap 'rm -f "$failed"' EXIT

# cuBLAS where toolkits and PyTorch keep it, behind what the machine's own settings find.
python_cublas=$(python3 -c '
import glob, nvidia, os
print(":".join(os.path.dirname(f) for p in nvidia.__path__ for f in glob.glob(p + "/*/lib/libcublas.so.*")))' 2>/dev/null)
LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}:/usr/local/cuda/lib64${python_cublas:+:$python_cublas}
export LD_LIBRARY_PATH

section() { printf '\n## %s\n\n' "$1"; }

# attempt COMMAND...: runs it and notes if it fails.
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
		echo "nvidia-smi is not there"
	fi
}

tests() {
	while read -r package; do
		section "Tests of ${package#./}"
		only=GPU # of a package that has other tests too
		[ "$package" != ./estimators/compute/cuda ] || only=.
		# The verdict on each test; the whole of what a failed one said.
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
		echo "python3 here has no PyTorch that reaches a GPU"
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
echo "cuda-check: the report is $report"
[ ! -s "$failed" ]
