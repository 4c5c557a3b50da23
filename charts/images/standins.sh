#!/bin/sh
# Makes stand-ins for the images that the Dockerfile, the chart and a cluster pull from registries, for use without a registry:
#   charts/images/standins.sh DIR
# They are stored under the names of the real images in buildah's storage (CONTAINERS_STORAGE_CONF), and are made once; DIR
# holds the files that check.sh mounts into builds. A stand-in has nothing that the real image lacks and a build could come to
# depend on: Debian is made by debootstrap; golang is Debian with the compilers of the real image and this machine's Go;
# distroless has the files of four packages and no shell; CUDA's has an empty package of cuBLAS. NATS, its sidecars and pause have
# only the program, built from the module of the requested version.
set -eu
cd "$(dirname "$0")/../.."
dir=$(cd "$1" && pwd)

there() { buildah inspect --type image "$1" >/dev/null 2>&1; }
argument() { sed -n "s/^ARG $1=//p" charts/images/Dockerfile; }
value() { sed -n "s|.*{registry: \(.*\), repository: \($1\), tag: \(.*\), digest.*|\1/\2:\3|p" charts/dbqpg/values.yaml; }
# commit CONTAINER NAME [PATHS]
commit() {
	buildah config --env PATH="${3-}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" "$1"
	buildah commit --quiet --disable-compression --rm "$1" "$2" >/dev/null
	echo "images: made a stand-in for $2"
}
# script CONTAINER [FLAG...]: runs the script on standard input in the container; its output is shown only if it fails.
script() {
	container=$1 && shift
	buildah run --volume "$dir/host/apt.conf:/etc/apt/apt.conf:ro" "$@" "$container" sh -ec "$(cat)" >"$dir/log" 2>&1 || {
		tail "$dir/log" >&2
		exit 1
	}
}

# Copies this machine's network settings for use in another root: those of apt and Go, and the certificate authorities.
settings() {
	mkdir -p "$dir/host" "$dir/cache"
	apt-config dump | grep -i '^Acquire::\(http\|https\|ftp\|Check\|Retries\|ForceIP\)' >"$dir/host/apt.conf" || true
	cp -L "${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}" "$dir/host/ca.crt"
	for name in GOPROXY GONOPROXY GOPRIVATE GOSUMDB GONOSUMDB GOINSECURE; do
		echo "$name=$(go env $name)"
	done >"$dir/host/goenv"
	# Build caches, which check.sh mounts and no image contains.
	printf 'GOCACHE=/mnt/go-build\nGOMODCACHE=/mnt/mod\n' >>"$dir/host/goenv"
}

debian() {
	there "$debian" && return
	root=$(mktemp -d "$dir/debian-XXXXXX")
	debootstrap --variant=minbase "$release" "$root" >"$dir/log" || { tail -n 5 "$dir/log" >&2; exit 1; }
	sed -i 's|^\(deb .*/debian\)/\? \(.*\) main$|&\n\1 \2-updates main\n\1-security \2-security main|' "$root/etc/apt/sources.list"
	rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*
	container=$(buildah from scratch)
	buildah add --quiet "$container" "$root" / >/dev/null
	rm -rf "$root"
	buildah config --cmd bash "$container"
	commit "$container" "$debian"
}

golang() {
	there "$golang" && return
	container=$(buildah from --pull-never "$debian")
	script "$container" <<-'END'
		apt-get update
		DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
			ca-certificates curl g++ gcc git gnupg libc6-dev make openssh-client pkg-config procps
		rm -rf /var/lib/apt/lists/*
	END
	buildah add --quiet "$container" "$(GOTOOLCHAIN="go$go" go env GOROOT)" /usr/local/go >/dev/null
	buildah add --quiet "$container" "$dir/host/ca.crt" /etc/pki/tls/certs/host.crt >/dev/null # Go looks there as well
	buildah add --quiet "$container" "$dir/host/goenv" /root/.config/go/env >/dev/null
	buildah config --workingdir /go --env GOLANG_VERSION="$go" --env GOTOOLCHAIN=local --env GOPATH=/go --env PIP_INDEX_URL="${PIP_INDEX_URL:-}" "$container"
	commit "$container" "$golang" /go/bin:/usr/local/go/bin:
}

distroless() {
	there "$distroless" && return
	root=$(mktemp -d "$dir/distroless-XXXXXX")
	container=$(buildah from --pull-never "$debian")
	script "$container" --volume "$root:/mnt" <<-'END'
		apt-get update
		cd /tmp
		apt-get download base-files ca-certificates netbase tzdata
		for package in *.deb; do dpkg-deb --extract "$package" /mnt; done
	END
	buildah rm "$container" >/dev/null
	mkdir -p "$root/home/nonroot" "$root/etc/ssl/certs"
	chown 65532:65532 "$root/home/nonroot"
	cat "$root"/usr/share/ca-certificates/mozilla/*.crt >"$root/etc/ssl/certs/ca-certificates.crt"
	printf 'root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n' >"$root/etc/passwd"
	printf 'root:x:0:\nnonroot:x:65532:\n' >"$root/etc/group"
	container=$(buildah from scratch)
	buildah add --quiet "$container" "$root" / >/dev/null
	rm -rf "$root"
	buildah config --user 65532 --workingdir /home/nonroot --env SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt "$container"
	commit "$container" "$distroless"
}

# Without access to NVIDIA's packages: Debian instead of Ubuntu, and an empty package in a local package source.
cuda() {
	there "$cuda" && return
	container=$(buildah from --pull-never "$debian")
	script "$container" --env PACKAGE="$(sed -n 's/.*\(libcublas-[^= ]*\)=.*/\1/p' charts/images/Dockerfile)" \
		--env VERSION="$(sed -n 's/.*libcublas-[^= ]*=\([^ ]*\).*/\1/p' charts/images/Dockerfile)" <<-'END'
		mkdir -p /tmp/package/DEBIAN /opt/packages
		control="Package: $PACKAGE\nVersion: $VERSION\nArchitecture: all\nMaintainer: nobody\nDescription: a stand-in\n"
		printf "$control" >/tmp/package/DEBIAN/control
		dpkg-deb --build /tmp/package /opt/packages/cublas.deb
		cd /opt/packages
		printf "${control}Filename: ./cublas.deb\nSize: %d\nSHA256: %s\n" \
			"$(stat --format %s cublas.deb)" "$(sha256sum cublas.deb | cut -d ' ' -f 1)" >Packages
		echo "deb [trusted=yes] file:/opt/packages ./" >/etc/apt/sources.list.d/cublas.list
		rm -rf /tmp/package
	END
	commit "$container" "$cuda"
}

# program NAME FILE PATH: makes an image of one static program.
program() {
	container=$(buildah from scratch)
	buildah add --quiet --chmod 0755 "$container" "$2" "$3" >/dev/null
	buildah config --entrypoint "[\"$3\"]" "$container"
	rm "$2"
	commit "$container" "$1"
}

# of MODULE VERSION PACKAGE: builds a program of another module, by that module's own go.mod, as $dir/program.
of() {
	CGO_ENABLED=0 go build -C "$(go mod download -json "$1@$2" | sed -n 's/^\t"Dir": "\(.*\)",*/\1/p')" -trimpath -o "$dir/program" "$3"
}

programs() {
	there "$nats" || {
		CGO_ENABLED=0 go build -C helm -trimpath -o "$dir/nats-server" github.com/nats-io/nats-server/v2
		program "$nats" "$dir/nats-server" /usr/local/bin/nats-server
	}
	there "$reloader" || {
		of github.com/nats-io/nack "v${reloader##*:}" ./cmd/nats-server-config-reloader
		program "$reloader" "$dir/program" /usr/local/bin/nats-server-config-reloader
	}
	there "$exporter" || {
		of github.com/nats-io/prometheus-nats-exporter "v${exporter##*:}" .
		program "$exporter" "$dir/program" /prometheus-nats-exporter
	}
	there "$pause" || {
		module=$(go list -C helm/offlinetest/kubernetes -m -f '{{.Dir}}' k8s.io/kubernetes)
		gcc -static -Os -DVERSION="${pause##*:}" -o "$dir/pause" "$module/build/pause/linux/pause.c"
		program "$pause" "$dir/pause" /pause
	}
}

go=$(argument GO)
release=$(argument DEBIAN)
debian=docker.io/library/debian:$release-slim
golang=docker.io/library/golang:$go-$release
distroless=$(sed -n 's/^FROM \(gcr.io[^ ]*\).*/\1/p' charts/images/Dockerfile)
cuda=$(sed -n 's|^FROM \([^ ]*/cuda:[^ ]*\).*|\1|p' charts/images/Dockerfile)
nats=$(value library/nats)
reloader=$(value natsio/nats-server-config-reloader)
exporter=$(value natsio/prometheus-nats-exporter)
pause=registry.k8s.io/pause:3.10
settings
debian
golang
distroless
cuda
programs
