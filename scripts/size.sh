#!/bin/sh
# Measures the project and fails above the limits below: lines of Go by package (without tests and packages named *test), imports between
# top-level directories against their order, flags, documentation, and runs of lines that occur twice.
set -eu
cd "$(dirname "$0")/.."
# A limit is what there is, and falls with it: the goals are 46,000 lines, 14,600 in learner, 55 pages and 60,000 words.
most_go=52800
most_learner=18100
most_pages=44
most_words=40520
most_shared=19 # lines in a row, blank ones aside, that two places may share
order="estimators sim proto internal actor coordinator learner" # each imports only those before it

failed=$(mktemp)
trap 'rm -f "$failed"' EXIT
# limit NAME VALUE MOST
limit() {
	printf '%-28s %7d   at most %d\n' "$1" "$2" "$3"
	[ "$2" -le "$3" ] || echo "size: $1: $2 is above the limit of $3" >>"$failed"
}
sources() { git ls-files --cached --others --exclude-standard '*.go' | while read -r file; do [ ! -f "$file" ] || echo "$file"; done; }

echo "Lines of Go by package"
lines=$(sources | grep -vE '_test\.go$|(^|/)[^/]*test/|/testdata/' | xargs awk '
	{ package = FILENAME; sub("/[^/]*$", "", package); count[package]++ }
	END { for (package in count) print count[package], package }')
echo "$lines" | sort -k 2 | awk '{ printf "%7d %s\n", $1, $2 }'
total() { echo "$lines" | awk -v under="$1" '$2 ~ under { n += $1 } END { print n + 0 }'; }

echo
echo "Imports against the order $order"
imports=$(go list -f '{{$p := .ImportPath}}{{range .Imports}}{{$p}} {{.}}{{"\n"}}{{end}}' ./... | awk -v order="$order" -v module="$(go list -m)/" '
	BEGIN { n = split(order, names, " "); for (i = 1; i <= n; i++) rank[names[i]] = i }
	index($1, module) && index($2, module) {
		from = substr($1, length(module) + 1); to = substr($2, length(module) + 1)
		split(from, a, "/"); split(to, b, "/")
		if (a[1] != b[1] && rank[a[1]] && rank[b[1]] >= rank[a[1]]) print "  " from " imports " to
	}')
[ -z "$imports" ] || echo "$imports"

echo
flags() { { go run "./$1" --help-all || go run "./$1" --help; } 2>/dev/null | grep -cE '^ +(-[a-zA-Z], )?--'; }
printf '%-28s %7d\n' "flags of learner" "$(flags learner)"
limit "lines of Go" "$(total .)" "$most_go"
limit "lines of Go in learner" "$(total '^learner(/|$)')" "$most_learner"
limit "imports against the order" "$(printf %s "$imports" | grep -c . || true)" 0
limit "documentation pages" "$(find docs -name '*.md' | grep -c .)" "$most_pages"
limit "documentation words" "$(find docs -name '*.md' -exec cat {} + | wc -w)" "$most_words"

shared=$(sources | xargs awk -v run=$((most_shared + 1)) '
	FNR == 1 { held = 0; before = "" }
	{ gsub(/^[ \t]+|[ \t]+$/, "") }
	$0 == "" { next }
	{
		line[held % run] = $0; at[held % run] = FNR; held++
		if (held < run) next
		text = ""
		for (i = held; i < held + run; i++) text = text "\n" line[i % run]
		place = FILENAME ":" at[held % run]
		if (!(text in seen)) { seen[text] = place; before = "" }
		else { if (before == "") print "  " place " and " seen[text]; before = place }
	}')
limit "runs of lines shared" "$(printf %s "$shared" | grep -c . || true)" 0
[ -z "$shared" ] || echo "$shared"
cat "$failed" >&2
[ ! -s "$failed" ]
