// Package external plays tasks that other programs simulate: a task file ([File]) says what is observed and which
// command simulates it, and [Environments] makes a [sim.Env] of it, beside those of the built-in tasks.
//
// # Processes
//
// A process of the command has several environments, as many as the file says. What its environments are asked while
// it is busy goes into its next message, so that a step costs a fraction of a message. Which environments share a
// process, or a message, does not matter to results.
//
// Whatever goes wrong in a process is the error of the episodes that it was playing, whose tickets are then played
// again: an exception in one environment, an answer that is late or makes no sense, the process's end. After the latter
// two, the next episode starts another process. Errors end with the process's last words on its standard error.
//
// # The protocol
//
// The process reads requests from its standard input and writes one answer to each, in order, to its standard output;
// it ends at the end of its input. A message is its length (4 bytes, big-endian) and that many bytes: one msgpack
// array. Matrices and vectors are byte strings of little-endian float64, row-major. With k environments, of o
// observations and a actions:
//
//	["hello", 1, k]                  asks for k environments under version 1 of this protocol
//	["hello", 1, o, a]               or, of discrete actions, ["hello", 1, o, a, [n, m, ...]]: the choices of each
//	["reset", i, seed]               starts an episode in environment i, in [0, k), as seed says, in [0, 2³²)
//	["reset", observation]           o numbers
//	["step", [i, j, ...], actions]   takes a step in each of n different environments; n × a
//	["step", observations, rewards, ends, errors]
//	["error", text]                  an error, in place of any answer
//
// The answer to a step has n × o numbers, n numbers, and a byte of bits for each of the n: 1, the task has ended the
// episode; 2, a time limit has; 4, the environment has failed, which has no other numbers than zeros, and a text in
// the list of errors, in order. An episode is reproducible if the environment is a function of seed and actions.
package external
