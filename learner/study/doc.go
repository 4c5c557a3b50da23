// Package study reproduces the paper's figures: each experiment is a subcommand of `learner study` that takes measurements,
// resumes after an interruption, and writes the results as CSV files, a figure and a page.
//
// There are several kinds.
//
//   - A comparison (compare.go) trains variants of one run that differ in a few settings, on tasks and with seeds, and
//     compares their learning curves: `curves`, `ablation`, `kernels`, `fisher-samples`, `uncertainty`. Each is an
//     entry in a table (comparisons.go): the variants, and what the paper claims about them.
//   - `gradient-quality` (quality.go) takes policies of a run at several times, and compares gradients from small fresh
//     batches with one from 10^6 samples (measure.go). What the page needs of a policy is published (quality_results.go).
//   - `wall-clock` (wallclock.go) measures updates against the size of the batch.
//   - `best` (best.go) compares evaluations of runs with those of other libraries; it trains nothing.
//
// Measurements are kept in the output directory as they are made: training runs under runs/, everything else as files
// under units/ (unit.go). Complete runs of a comparison are published under data/, with a record of what made them
// (data.go); several are made at a time, in processes of their own (train.go), and `curves` can take them from a file
// (queue.go), with controls that no setting describes (arms.go). The page, README.md, is generated entirely from
// these: its verdicts on the paper's claims are computed from the numbers. Human comments go into notes.md, which the
// page includes.
package study
