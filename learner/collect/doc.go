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
// # Useful actors
//
// At any moment a ticket i that is not completed may still count in the batch, or not: it counts if and only if the
// tickets before it hold fewer steps than the batch needs, N. Those completed hold a known number S_i. Each of the m_i
// others holds L steps on average, with standard deviation s, as the last batch had it (before there was one: the time
// limit, and 0). So before ticket i there are S_i + m_i L steps, give or take s sqrt(m_i), and the ticket is useful while
//
//	S_i + m_i L - s sqrt(m_i) < N:
//
// while it is not almost certain, by one standard deviation, that the batch ends before it. The ledger gives out no other
// tickets, and [Collector.Useful] counts these, under way or not yet given out: how many episodes at once could still
// count. A slot more than that would only wait.
//
// With M steps missing and none completed beyond the prefix that is ceil(M/L) where all episodes are equally long: 15 for
// 15,000 steps of a task that always ends at its limit of 1,000. Where lengths differ, s sqrt(M/L) / L more are useful:
// without them there is one chance in two that the tickets of the first round bring too few steps and a second round has
// to be waited for, with them about one in six; twice as many slots would have the batch 6 % sooner at most
// (TestMoreThanUsefulHardlyHelps). The number falls as steps come in and is 0 between batches.
//
// It is also what bounds the speed: with k slots the batch takes at least N/k steps' time, and no number of slots has it
// sooner than the longest episode of the prefix. BenchmarkSlowActors measures how near real actors come.
//
// # Who gets tickets
//
// Learners announce every second, when an actor that comes asks, and when tickets turn up after there were none, how many
// tickets they would give out (proto.Announcement); each answer says so too. Actors choose by that whom to ask: see
// package rollout. A ticket that failed with one actor goes to another if there is any; it ends the run only when several
// that can be believed have failed with it, so that one broken or hostile actor cannot.
//
// # The parts
//
// [Collector] opens and closes: it publishes policies, subscribes, and waits for batches (collector.go, publication.go);
// it serves requests and announces where the learner stands (serve.go, announce.go). What is decided is decided by plain
// data, without clock or network: dispatcher answers requests, [Ledger] is the prefix rule itself, uploads puts episodes
// together from their chunks, within a credit.
package collect
