#!/bin/sh
# Builds the images without access to a registry, starts the program of each, and writes archives for a cluster:
#   charts/images/check.sh [DIR]     (DIR: .deps/images)
# It runs `make images` with buildah, on stand-ins for the base images (standins.sh), so that every step of the Dockerfile is
# executed. The programs start as in pods: as user 65532, with a read-only root and the environment of the image. Of CUDA
# only the build is checked, not the contents of NVIDIA's image.
# Afterwards DIR/oci has an archive of each image that the chart names and of pause, for `ctr -n k8s.io images import`.
# A second run reuses DIR; remove it to start afresh.
set -eu
cd "$(dirname "$0")/../.."

missing=
need() { command -v "$1" >/dev/null || { echo "images: $1 not found: install it (Debian, Ubuntu: apt install $2)" >&2; missing=1; }; }
need buildah buildah
need debootstrap debootstrap
need unshare util-linux
need flock util-linux
need gcc build-essential
command -v go >/dev/null || { echo "images: go not found: install it from https://go.dev/dl" >&2; missing=1; }
[ "$(id -u)" -eq 0 ] || { echo "images: only root can create root file systems: run it as root" >&2; missing=1; }
[ -z "$missing" ] || exit 1

mkdir -p "${1:-.deps/images}"
dir=$(cd "${1:-.deps/images}" && pwd)
export CONTAINERS_STORAGE_CONF="$dir/storage.conf" BUILDAH_ISOLATION=chroot
exec 9>"$dir/lock"
flock --nonblock 9 || { echo "images: waiting for another check in $dir" && flock 9; }

# Stand-ins made by another recipe or of other versions are rebuilt.
recipe=$({
	cat charts/images/standins.sh
	sed -n '/^ARG/p; /^FROM.*[/]/p; /apt-get/p' charts/images/Dockerfile
	sed -n '/repository: .*nats/p' charts/dbqpg/values.yaml
} | sha256sum)
if [ "$(cat "$dir/recipe" 2>/dev/null)" != "$recipe" ]; then
	rm -rf "$dir/storage" "$dir/run"
	printf '[storage]\ndriver = "overlay"\ngraphroot = "%s/storage"\nrunroot = "%s/run"\n' "$dir" "$dir" >"$dir/storage.conf"
	echo "$recipe" >"$dir/recipe"
fi
buildah rm --all >/dev/null # containers left by an interrupted run
charts/images/standins.sh "$dir"

# The two build stages are tagged as images here; otherwise pruning would remove them and the next run would rebuild them.
targets="build build-cuda coordinator actor learner-cpu learner"
echo "images: make images, logged in $dir/build.log"
make --no-print-directory images DOCKER=buildah IMAGES="$targets" \
	BUILDFLAGS="--pull=never --layers --volume $dir/cache:/mnt --volume $dir/host/apt.conf:/etc/apt/apt.conf:ro" >"$dir/build.log" 2>&1 || {
	tail -n 20 "$dir/build.log" >&2
	exit 1
}
buildah rmi --prune >/dev/null 2>&1 || true

name() { make --no-print-directory --silent image-names IMAGES="$1"; }
setting() { buildah inspect --type image --format "{{range .OCIv1.Config.$1}}{{.}} {{end}}" "$image"; }

# enter TARGET: sets $image and $root to those of the target, until leave.
enter() {
	image=$(name "$1")
	container=$(buildah from --pull-never "$image")
	root=$(buildah mount "$container")
}
leave() { buildah rm "$container" >/dev/null; }

# inside COMMAND...: runs the command as in a pod of Pod Security level "restricted", with a volume at /tmp.
inside() {
	# shellcheck disable=SC2016,SC2046 # variables of the inner shell; one word per environment variable
	unshare --mount --pid --fork --kill-child sh -ec '
		root=$1 && shift
		mount --bind "$root" "$root"
		mount -o remount,bind,ro "$root"
		mount -t proc proc "$root/proc"
		mount --bind /dev "$root/dev"
		mount -t tmpfs tmpfs "$root/tmp"
		exec "$@"' - "$root" env -i $(setting Env) HOME=/tmp chroot --userspec=65532:65532 "$root" "$@"
}
fail() { echo "images: $image: $*" >&2; exit 1; }

# starts TARGET ARGUMENT...: checks that the target's program succeeds with these arguments and that no library is missing.
starts() {
	enter "$1" && shift
	user=$(buildah inspect --type image --format '{{.OCIv1.Config.User}}' "$image")
	case $user in 65532 | 65532:65532) ;; *) fail "runs as $user and not as 65532" ;; esac
	program=$(setting Entrypoint)
	program=${program% }
	linker=$(readelf -l "$root$program" | sed -n 's/.*interpreter: \(.*\)\]/\1/p')
	for file in ${linker:+"$program" $(cd "$root" && find usr/local/lib/dbqpg -type f 2>/dev/null)}; do # a static program has none
		lacks=$(inside "$linker" --list "/${file#/}" 2>&1 | grep -i 'not found\|error' || true)
		[ -z "$lacks" ] || fail "/${file#/}: $lacks"
	done
	inside "$program" "$@" >"$dir/log" 2>&1 || { tail "$dir/log" >&2; fail "${program##*/} $* does not start"; }
}
shells() { find "$root" -xdev \( -name sh -o -name bash -o -name dash -o -name busybox \) -perm /111 ! -type d; }
size() { buildah images --format '{{.Size}}' "$image" | head -n 1; }

starts coordinator --help
[ -z "$(shells)" ] || fail "contains a shell: $(shells)"
inside "$program" credentials create --out /tmp/credentials >"$dir/log" 2>&1 || { tail "$dir/log" >&2; fail "cannot create credentials"; }
echo "images: $image: $(size); starts, creates credentials, has no shell"
leave

starts actor --help
echo "images: $image: $(size); starts"
leave

for target in learner-cpu learner; do
	starts $target --env Swimmer-v2 --device cpu --iterations 2 --batch 2000 --run-dir /tmp/run
	echo "images: $image: $(size); trains"
	if [ $target = learner ]; then
		! inside "$program" --env Swimmer-v2 --device cuda --run-dir /tmp/run >"$dir/log" 2>&1 || fail "finds a GPU"
		grep -i 'libcuda.so.1\|driver' "$dir/log" | tail -n 1
	fi
	leave
done

# archive NAME: writes an archive of the image, unless there is one.
archive() {
	image=$1
	file=$dir/oci/$(basename "$image" | tr : _).tar
	current="$current $file"
	id=$(buildah inspect --type image --format '{{.FromImageID}}' "$image")
	[ "$(cat "$file.id" 2>/dev/null)" != "$id" ] || return 0
	rm -f "$file.id" "$dir/archive"
	buildah push --quiet "$image" "oci-archive:$dir/archive:$image" >/dev/null
	mv "$dir/archive" "$file"
	echo "$id" >"$file.id"
	echo "images: wrote $file"
}
mkdir -p "$dir/oci"
current=
for target in coordinator actor learner-cpu learner; do archive "$(name $target)"; done
for image in $(sed -n 's|.*{registry: \(.*\), repository: \(.*nats.*\), tag: \(.*\), digest.*|\1/\2:\3|p' charts/dbqpg/values.yaml) registry.k8s.io/pause:3.10; do
	archive "$image"
done
for file in "$dir"/oci/*.tar; do # remove archives of other versions
	case "$current " in *" $file "*) ;; *) rm -f "$file" "$file.id" ;; esac
done
