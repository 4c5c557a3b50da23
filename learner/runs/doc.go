// Package runs reads and writes the files of training runs. A run's directory contains
//
//	config.yaml                     the resolved settings
//	builds.yaml                     commits, library versions and machines that trained the run, with first iterations
//	progress.csv                    a row per iteration
//	evaluations.csv                 a row per evaluated checkpoint
//	shut-out.json                   actors that sent false results and are blocked
//	events.out.tfevents.*           both for TensorBoard, with the settings, written anew at each start
//	environment_steps/              the same for the returns, at environment steps in place of iterations
//	log.txt                         the learner's log
//	outcome.yaml                    how the last learner ended, and why
//	checkpoints/                    the newest states, the best, and --keep-checkpoints
//
// An iteration is written in an order that makes a kill at any moment harmless: first the rows, then the checkpoint. A
// resumed run cuts off the rows of the iteration that it repeats, so that all files end up as if it had never been
// stopped.
//
// # The state
//
// A [State] is everything that a run needs to resume as if nothing had happened. It is taken between two iterations and
// contains no random state beyond its counters, since every stream is derived from the run's seed and an iteration's
// number. The parameters, the optimisers' moments, the normaliser and the critic are named arrays.
//
// # The file
//
// A state is one safetensors file, which Python's safetensors package can open too: its metadata are the counters and
// the run's settings; its tensors are the arrays, sorted by name, followed by "sha256", the digest of all preceding
// bytes of the file. A network's parameters are a tensor for each layer's weight and bias, as in PyTorch:
// "policy.0.weight" (out × in), "policy.0.bias" (out), ..., "log_std".
//
// # The directory
//
// A [Store] holds the newest two states, the one with the best policy, and the iterations given to Keep. Files are
// replaced atomically, and at least one of the newest two is always intact.
package runs
