#!/bin/sh
# Prepares the tests of the browser's pages: fetches the npm packages that are pinned in internal/web/bundle into .deps/npm, and installs
# Chromium where that is possible, as root on Debian or Ubuntu. Without either, those tests say that they did not run.
set -eu
cd "$(dirname "$0")/.."
go run ./internal/web/build --fetch || echo "browser: the npm packages cannot be fetched: the pages' types and accessibility are not tested" >&2
command -v chromium >/dev/null && exit 0
if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
	{ apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends chromium fonts-dejavu-core; } >/dev/null ||
		echo "browser: Chromium cannot be installed: the pages are not tested in it" >&2
else
	echo "browser: there is no Chromium (Debian, Ubuntu: apt install chromium): the pages are not tested in it" >&2
fi
