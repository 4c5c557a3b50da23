#!/bin/sh
# Installs the chart in a real single-node cluster (helm/offlinetest) and tests it there:
#   scripts/chart_e2e.sh [TEST FLAG...]     such as -test.run Presets
#   scripts/chart_e2e.sh --shell            a shell with helm and kubectl instead of the tests
#
# With KUBECONFIG set, the tests run in that cluster, which must have the images (kind load docker-image $(make -s image-names)),
# a default StorageClass and room for a few cores; tests of what only the offline cluster has are skipped, by name. Otherwise
# everything is built from source: Kubernetes (minutes, the first time), and the images by charts/images/check.sh. The
# cluster runs in namespaces of its own and leaves nothing behind, except its files and logs after a failure.
set -eu
cd "$(dirname "$0")/.."

shell=
if [ "${1:-}" = --shell ]; then
	shift
	shell=${SHELL:-sh}
fi
programs=$PWD/.deps/kubernetes/bin
mkdir -p "$programs"
scripts/setup.sh
go build -o "$programs/" ./learner ./coordinator
(cd helm && go build -o "$programs/" helm.sh/helm/v3/cmd/helm && go test -tags e2e -c -o "$programs/e2e.test" ./e2e)
if [ -n "${KUBECONFIG:-}" ]; then
	kubectl=$(command -v kubectl) || { echo "chart-e2e: kubectl not found" >&2; exit 1; }
	ln -sf "$kubectl" "$programs/kubectl"
	cd helm/e2e
	DBQPG_E2E_PROGRAMS=$programs exec "$programs/e2e.test" -test.timeout 90m -test.v "$@"
fi

missing=
need() { [ -n "$(command -v "$1")" ] || { echo "chart-e2e: $1 not found: install it (Debian, Ubuntu: apt install $2)" >&2; missing=1; }; }
need etcd etcd-server
need containerd containerd
need runc runc
need /usr/lib/cni/ptp containernetworking-plugins
need nft nftables
need conntrack conntrack
need ip iproute2
need unshare util-linux
need buildah buildah
need debootstrap debootstrap
[ "$(id -u)" -eq 0 ] || { echo "chart-e2e: only root can start a kubelet: run it as root" >&2; missing=1; }
[ -z "$missing" ] || exit 1

# The linker sets the version that Kubernetes reports.
version=$(go list -C helm/offlinetest/kubernetes -m -f '{{.Version}}' k8s.io/kubernetes)
minor=${version#v*.}
flags="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
	flags="$flags -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=${minor%.*}"
done
echo "chart-e2e: Kubernetes $version"
[ ! -L "$programs/kubectl" ] || rm "$programs/kubectl" # another cluster's
(cd helm/offlinetest/kubernetes && CGO_ENABLED=0 go build -trimpath -ldflags "$flags" -o "$programs/" tool)
[ -x .deps/bin/versitygw ] || make --no-print-directory s3-server
scripts/setup.sh cuda ptx
scripts/cuda.sh --emulator true # builds the emulator, which is the driver of the node's GPU
charts/images/check.sh

cluster=$(mktemp -d "$PWD/.deps/kubernetes/cluster.XXXXXX")
# The node's control groups are named after the directory. The containers end with the process namespace.
tidy() {
	rmdir /var/lib/kubelet 2>/dev/null || true # mount point of the node's files
	for group in /sys/fs/cgroup/"${cluster##*/}" /sys/fs/cgroup/*/"${cluster##*/}"; do
		[ ! -d "$group" ] || find "$group" -depth -type d -exec rmdir {} +
	done
}
trap tidy EXIT
trap 'exit 130' INT TERM
# Commands from the documentation build programs, with a home directory in the cluster.
GOMODCACHE=$(go env GOMODCACHE) GOCACHE=$(go env GOCACHE)
export GOMODCACHE GOCACHE
cd helm/e2e
DBQPG_E2E_PROGRAMS=$programs DBQPG_E2E_IMAGES=${programs%/kubernetes/bin}/images/oci DBQPG_E2E_DIRECTORY=$cluster DBQPG_E2E_SHELL=$shell \
	DBQPG_E2E_DRIVER=$PWD/../../.deps/cuda/emulator \
	unshare --net --mount --pid --fork --kill-child --mount-proc --propagation private \
	"$programs/e2e.test" -test.timeout 45m -test.v "$@" || {
	status=$?
	echo "chart-e2e: the logs of the servers are in $cluster" >&2
	exit "$status"
}
rm -rf "$cluster"
