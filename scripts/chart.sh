#!/bin/sh
# Puts NATS's official chart, on which this one depends, into CHART/charts, unless it is there: scripts/chart.sh [CHART]
# It comes from its repository, or from NATS_CHART, the directory helm/charts/nats of a checkout of github.com/nats-io/k8s.
set -eu
chart=$(cd "${1:-charts/dbqpg}" && pwd)
cd "$(dirname "$0")/../helm"
version=$(sed -n '/^dependencies:/,$s/^ *version: //p' "$chart/Chart.yaml")
repository=$(sed -n '/^dependencies:/,$s/^ *repository: //p' "$chart/Chart.yaml")
[ ! -f "$chart/charts/nats-$version.tgz" ] || exit 0
helm() { go run helm.sh/helm/v3/cmd/helm "$@"; }
if [ -n "${NATS_CHART:-}" ]; then
	grep -q "^version: $version\$" "$NATS_CHART/Chart.yaml" || { echo "chart: NATS_CHART: $NATS_CHART is not NATS's chart of version $version" >&2; exit 1; }
	helm package "$NATS_CHART" --destination "$chart/charts"
else
	helm dependency build "$chart" || {
		echo "chart: NATS's chart $version cannot be fetched from $repository: set NATS_CHART to the directory helm/charts/nats of a checkout of github.com/nats-io/k8s" >&2
		exit 1
	}
fi
