#!/bin/sh
# Makes stand-ins for the images that the Dockerfile and the chart take from registries, where none is reached:
#   charts/images/standins.sh DIR
# They lie in buildah's storage DIR/storage, under the names of the real ones, and are made once. What is not in a real
# image is not in its stand-in either, so far as the Dockerfile or the chart could come to rest on it: Debian by debootstrap;
# golang is that with the compilers that the real one brings and this machine's Go; distroless is the files of five
# packages, with no shell. Of NATS and kubectl there is the program alone, built from the module of the version asked for.
set -eu
cd "$(dirname "$0")/../.."
mkdir -p "$1"
dir=$(cd "$1" && pwd)
export BUILDAH_ISOLATION=chroot

buildah() { command buildah --storage-driver overlay --root "$dir/storage" --runroot "$dir/run" "$@"; }
there() { buildah inspect --type image "$1" >/dev/null 2>&1; }
argument() { sed -n "s/^ARG $1=//p" charts/images/Dockerfile; }
value() { sed -n "s/^ *$1: //p" charts/dbqpg/values.yaml | head -n 1; }
# commit CONTAINER NAME
commit() { buildah commit --quiet --disable-compression --rm "$1" "$2" >/dev/null && echo "images: made a stand-in for $2"; }

# What this machine needs to fetch with, for a root of its own: apt's, pip's and Go's settings, and authorities.
settings() {
	rm -rf "$dir/host"
	mkdir -p "$dir/host" "$dir/cache"
	apt-config dump | grep '^Acquire::' >"$dir/host/apt.conf" || true
	{
		echo '[global]'
		python3 -m pip config list | sed -n "s/^[^.]*\.\(index-url\|extra-index-url\|trusted-host\|proxy\|timeout\|default-timeout\)='\(.*\)'/\1 = \2/p"
		echo 'cert = /etc/pki/tls/certs/host.crt'
	} >"$dir/host/pip.conf"
	for name in GOPROXY GONOPROXY GOPRIVATE GOSUMDB GONOSUMDB GOINSECURE; do
		echo "$name=$(go env $name)"
	done >"$dir/host/goenv"
	# The build's caches, which outlast it.
	echo 'GOCACHE=/mnt/go-build
GOMODCACHE=/mnt/mod' >>"$dir/host/goenv"
	cp -L "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" "$dir/host/ca.crt"
}

debian() {
	image=docker.io/library/debian:$release-slim
	there "$image" && return
	root=$(mktemp -d "$dir/debian-XXXXXX")
	echo "images: debootstrap $release"
	debootstrap --variant=minbase "$release" "$root" >"$dir/debootstrap.log" || { tail -n 5 "$dir/debootstrap.log"; exit 1; }
	sed -i 's|^\(deb .*/debian\)/\? \(.*\) main$|&\n\1 \2-updates main\n\1-security \2-security main|' "$root/etc/apt/sources.list"
	rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
	container=$(buildah from scratch)
	buildah add --quiet "$container" "$root" / >/dev/null
	rm -rf "$root"
	buildah config --cmd bash --env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$container"
	commit "$container" "$image"
}

golang() {
	image=docker.io/library/golang:$go-$release
	there "$image" && return
	goroot=$(GOTOOLCHAIN=go$go go env GOROOT)
	container=$(buildah from --pull-never "docker.io/library/debian:$release-slim")
	buildah run --volume "$dir/host/apt.conf:/etc/apt/apt.conf:ro" "$container" sh -ec '
		apt-get update
		DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
			ca-certificates curl g++ gcc git gnupg libc6-dev make openssh-client pkg-config procps
		rm -rf /var/lib/apt/lists/*' >"$dir/golang.log" 2>&1 || { tail "$dir/golang.log"; exit 1; }
	buildah add --quiet "$container" "$goroot" /usr/local/go >/dev/null
	buildah add --quiet "$container" "$dir/host/ca.crt" /etc/pki/tls/certs/host.crt >/dev/null
	buildah add --quiet "$container" "$dir/host/pip.conf" /etc/pip.conf >/dev/null
	buildah add --quiet "$container" "$dir/host/goenv" /root/.config/go/env >/dev/null
	buildah config --workingdir /go --env GOLANG_VERSION="$go" --env GOTOOLCHAIN=local --env GOPATH=/go \
		--env PATH=/go/bin:/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$container"
	commit "$container" "$image"
}

distroless() {
	image=gcr.io/distroless/base-debian12:nonroot
	there "$image" && return
	root=$(mktemp -d "$dir/distroless-XXXXXX")
	container=$(buildah from --pull-never "docker.io/library/debian:$release-slim")
	buildah run --volume "$dir/host/apt.conf:/etc/apt/apt.conf:ro" --volume "$root:/mnt" "$container" sh -ec '
		apt-get update
		cd /tmp
		apt-get download base-files ca-certificates libc6 libssl3 netbase tzdata
		for package in *.deb; do dpkg-deb --extract "$package" /mnt; done' >"$dir/distroless.log" 2>&1 || { tail "$dir/distroless.log"; exit 1; }
	buildah rm "$container" >/dev/null
	mkdir -p "$root/home/nonroot" "$root/etc/ssl/certs"
	chown 65532:65532 "$root/home/nonroot"
	cat "$root"/usr/share/ca-certificates/mozilla/*.crt >"$root/etc/ssl/certs/ca-certificates.crt"
	printf 'root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n' >"$root/etc/passwd"
	printf 'root:x:0:\nnonroot:x:65532:\n' >"$root/etc/group"
	container=$(buildah from scratch)
	buildah add --quiet "$container" "$root" / >/dev/null
	rm -rf "$root"
	buildah config --user 65532 --workingdir /home/nonroot --env SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt \
		--env PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$container"
	commit "$container" "$image"
}

# program NAME FILE PATH: an image of one static program.
program() {
	container=$(buildah from scratch)
	buildah add --quiet --chmod 0755 "$container" "$2" "$3" >/dev/null
	buildah config --env PATH=/usr/local/bin:/usr/bin:/bin --entrypoint "[\"$3\"]" "$container"
	commit "$container" "$1"
}

# What the chart and a cluster run besides: static programs of the versions that the chart names.
programs() {
	nats=$(value nats)
	there "$nats" || {
		CGO_ENABLED=0 go build -C helm -trimpath -o "$dir/nats-server" github.com/nats-io/nats-server/v2
		program "$nats" "$dir/nats-server" /usr/local/bin/nats-server
	}
	kubectl=$(value kubectl)
	there "$kubectl" || {
		CGO_ENABLED=0 go build -C helm/kubernetes -trimpath -o "$dir/kubectl" k8s.io/kubernetes/cmd/kubectl
		program "$kubectl" "$dir/kubectl" /bin/kubectl
	}
	there "$pause" || {
		source=$(go list -C helm/kubernetes -m -f '{{.Dir}}' k8s.io/kubernetes)/build/pause/linux/pause.c
		gcc -static -Os -DVERSION=3.10 -o "$dir/pause" "$source"
		program "$pause" "$dir/pause" /pause
	}
}

go=$(argument GO)
release=$(argument DEBIAN)
pause=registry.k8s.io/pause:3.10
settings
debian
golang
distroless
programs
