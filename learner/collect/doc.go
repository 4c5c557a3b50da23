// Package collect turns tickets into batches: it publishes a policy, gives out tickets to
// whatever actors there are, and takes in their episodes until the batch is complete.
//
// # The prefix rule
//
// The tickets of an iteration are numbered from 0. The batch is the shortest prefix of
// completed tickets that holds at least the wanted number of steps: exactly what one sampler that plays them one
// after the other would have collected. Closing the batch with whichever episodes arrive
// first would favour short ones. So the batch does not depend on how many actors there are,
// how fast they are, or which of them die.
//
// An episode is a function of its ticket and the policy, so a ticket can be given out again at any
// time: when its lease expires, when its actor gives it back or asks for another. The first valid
// episode of a ticket wins; later ones are acknowledged and dropped.
//
// # The parts
//
// [Ledger] is the rule itself, pure data without clock or network. uploads puts episodes together from
// their chunks, within a credit. [Collector] connects both to the bus. The clock is read only there.
package collect
