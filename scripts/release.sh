#!/bin/sh
# Builds what a release consists of besides the images, into DIR, and publishes nothing: scripts/release.sh VERSION [DIR]
#   dbqpg-VERSION-linux-ARCH.tar.gz        coordinator, learner and actor with their libraries and licences, for this machine's type
#   coordinator-VERSION-linux-{amd64,arm64} alone: a static program
#   dbqpg-VERSION-py3-none-manylinux*.whl  the Python package with the programs inside, for this machine's type (scripts/wheel.sh)
#   dbqpg-VERSION.cdx.json                 a bill of materials (CycloneDX) of the Go modules
#   dbqpg-VERSION.tgz                      the chart, and with HELM_KEY and HELM_KEYRING dbqpg-VERSION.tgz.prov, its provenance
#   SHA256SUMS
set -eu
cd "$(dirname "$0")/.."
VERSION=$1
dir=${2:-dist}
REVISION=$(git rev-parse HEAD 2>/dev/null || echo unknown)
export VERSION REVISION
rm -rf "$dir"
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

arch=$(go env GOARCH)
name=dbqpg-$VERSION-linux-$arch
# shellcheck disable=SC2016 # the loader's own variable
RPATH='$ORIGIN/../lib' charts/images/build.sh cpu "$work/$name"
tar c -C "$work" --owner=0 --group=0 --sort=name "$name" | gzip -n >"$dir/$name.tar.gz"

scripts/wheel.sh "$VERSION" "$dir"

commandline=github.com/dbqpg/dbqpg/internal/commandline
for arch in amd64 arm64; do
	CGO_ENABLED=0 GOOS=linux GOARCH=$arch go build -trimpath -ldflags "-s -w -X $commandline.release=$VERSION -X $commandline.commit=$REVISION" \
		-o "$dir/coordinator-$VERSION-linux-$arch" ./coordinator
done

cyclonedx=$(go mod download -json github.com/CycloneDX/cyclonedx-gomod@v1.10.0 | sed -n 's/^\t"Dir": "\(.*\)",*/\1/p')
go build -C "$cyclonedx" -o "$work/cyclonedx" ./cmd/cyclonedx-gomod # by its own go.mod
"$work/cyclonedx" mod -json -licenses -type application -output "$dir/dbqpg-$VERSION.cdx.json" .

(cd helm && go build -o "$work/helm" helm.sh/helm/v3/cmd/helm)
set -- package charts/dbqpg --version "$VERSION" --app-version "$VERSION" --destination "$dir"
[ -z "${HELM_KEY:-}" ] || set -- "$@" --sign --key "$HELM_KEY" --keyring "$HELM_KEYRING"
"$work/helm" "$@"

(cd "$dir" && sha256sum -- * >"$work/sums" && mv "$work/sums" SHA256SUMS && cat SHA256SUMS)
