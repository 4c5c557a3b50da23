// Package compute defines the operations on which the estimators are built: those
// whose cost grows with the number of samples, on matrices in the memory of a
// device.
//
// # Blocks
//
// A [Block] is a dense row-major matrix of float64 in a [Buffer] that only its
// backend can read. Views (rows, columns, a reshaped vector) are values and cost
// nothing. A batch of n samples is a stack of blocks with n rows: observations
// (n × o), the hidden layers (n × 64), the targets (n × 1). Policy parameters and
// gradients are p × 1 blocks, p × k for k of them.
//
// # Backends
//
// A [Backend] owns buffers and computes on them. Only the backend accesses the
// elements of a block; [Backend.Upload] and [Backend.Download] exchange them with host
// memory. So an estimator written against Backend runs on any device, and computetest's
// opaque backend, whose memory the host cannot read, shows that no code bypasses the
// backend.
//
// # Panels
//
// A chain of operations on a tall block (a network's forward pass, a
// Jacobian-vector product) is memory-bound when each operation sweeps all n rows
// before the next begins. [Backend.Panels] divides the rows into ranges instead: the
// body runs the whole chain on its range while the rows are still in cache, and
// the ranges run in parallel. The number of panels depends on n alone, never on
// the number of cores, and sums over panels are taken in panel order ([Partials]), so
// results are bit-identical on one core and on sixty-four. A device that is fast on tall
// blocks runs the body once with the whole range.
package compute
