#!/bin/sh
# Runs each fuzz test of the module for the given time (go test runs only one at a time): fuzz.sh 10s
set -eu
cd "$(dirname "$0")/.."
go list -f '{{.Dir}}' ./... | while read -r package; do
	grep -hos '^func Fuzz[A-Za-z0-9_]*' "$package"/*_test.go | while read -r _ name; do
		echo "fuzz: $name in ${package#"$PWD"/} for $1"
		go test "$package" -run '^$' -fuzz "^$name\$" -fuzztime "$1" -fuzzminimizetime 20x
	done
done
