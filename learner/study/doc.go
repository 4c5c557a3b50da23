// Package study makes the paper's figures: each of its experiments is a subcommand of `learner study` that measures,
// goes on where it was when it was killed, and writes what it found, as CSV files, a figure and a page.
//
// There are three kinds.
//
//   - A comparison (compare.go) trains variants of one run, a few settings apart, on tasks and with seeds, and puts
//     their learning curves side by side: `curves`, `ablation`, `kernels`, `fisher-samples`, `uncertainty`. Each is an
//     entry in a table (comparisons.go): the variants, and what the paper claims about them.
//   - `gradient-quality` (quality.go) takes policies of a run at several times, and compares gradients from small fresh
//     batches with one from 10^6 samples.
//   - `wall-clock` (wallclock.go) measures updates against the size of the batch.
//
// What is measured is kept in the output directory as it comes: training runs under runs/, all else as files under
// units/ (unit.go). The page, README.md, is written from these at the end, all of it: its verdicts on the
// paper's claims are computed from the numbers. What a person has to add goes into notes.md beside it, which the page
// includes.
package study
