// Package collect turns tickets into batches: it publishes a policy, issues tickets to
// the available actors, and receives their episodes until the batch is complete.
//
// # The prefix rule
//
// The tickets of a batch are numbered from 0. The batch is the shortest prefix of
// completed tickets that holds at least the requested number of steps: exactly the batch of a serial
// sampler. Closing the batch with whichever episodes arrive first would
// favour short ones. With the prefix rule the batch does not depend on how many actors there
// are, how fast they are, or which of them die.
//
// An episode is a function of its ticket and the policy, so a ticket can be issued again at any
// time: when its actor returns it, or its lease runs out. The first valid episode counts, of whichever slot the ticket
// was issued to, and however late; later ones are acknowledged and dropped. A lease is four times as long as a slot
// takes for the longest episode at the pace of most tickets of the last batch.
//
// # Useful actors
//
// An uncompleted ticket i ends up in the batch if and only if the tickets before it hold fewer steps than the N that
// the batch needs. Of these tickets the completed ones hold a known number of steps, S_i. Each of the m_i others holds
// L steps on average, with standard deviation s, both taken from the last batch (initially the time limit, and 0). So
// the tickets before i hold S_i + m_i L steps with standard deviation s sqrt(m_i), and ticket i is useful while
//
//	S_i + m_i L - s sqrt(m_i) < N:
//
// unless the batch ends before it by a margin of one standard deviation. The ledger issues no other tickets, and
// [Status] counts the useful ones, issued or not: how many concurrent episodes could still count. Further
// slots would only wait.
//
// With M steps missing and no tickets completed beyond the prefix, ceil(M/L) tickets are useful if all episodes are
// equally long: 15 for 15,000 steps of a task that always ends at its limit of 1,000. If lengths vary, s sqrt(M/L) / L
// more are useful: without them there is one chance in two that the first round of tickets brings too few steps and a
// second round is needed, with them about one in six. Twice as many slots would complete the batch at most 6 % sooner
// (TestMoreThanUsefulHardlyHelps). The number falls as steps arrive and is 0 between batches.
//
// The rule also bounds the speed: with k slots the batch takes at least the time of N/k steps, and with any number at
// least that of the longest episode in the prefix. BenchmarkSlowActors measures how close real actors come.
//
// # Segments
//
// A batch may also consist of segments ([Order]): ticket i is the next n steps of stream i, a sequence of episodes one
// after another, and comes with the state at which the stream stands (proto.Start). Episodes go on from one batch to
// the next. Tickets have the same number of steps, give or take one, so the prefix is all S streams: all are useful
// until they are completed, none is wasted, and nothing is decided by which came first. A segment is a function of its
// ticket, the policy and the state, so everything above holds for it.
//
// The learner checks a segment: its first observation is the state's, the ends of episodes agree
// with the time limit, the state after it is of the task and after the right number of steps. What the engine's state
// contains, like rewards, is checked by replay.
//
// # Distribution of tickets
//
// Learners announce how many tickets they would issue (proto.Announcement): every second, when a new actor asks, and
// when tickets become available after there were none. Each reply says so too. Actors use this to choose whom to ask:
// see package rollout.
//
// # Trust
//
// An episode is a function of its ticket, so the learner can play any ticket itself (play.go), and does: tickets that an
// actor fails or lets lapse, and all while no actor may play. Its own result counts. If a ticket fails for the learner,
// the run ends. The learner also plays the first ticket of each actor again and a random share of the others, and, if an
// update fails numerically, those of its batch ([Collector.Replay]). An actor whose result has other bits is shut out,
// by its key and its name; a key is if three of its actors were.
//
// An actor that does not play its tickets is issued none for a lease, then for two, four and so on; episodes pay this
// back. Names cost nothing, so all of a key's that have sent no episode yet count as one. Actors whose build computes the
// task otherwise are refused from the start (rollout.Digest). Nothing depends on how many names say something.
//
// # The parts
//
// [Collector] publishes policies, subscribes, and waits for batches (collector.go, publication.go); it serves requests
// and announces the learner's position (serve.go, announce.go). Decisions are made by plain data without clock or
// network: dispatcher answers requests, [Ledger] implements the prefix rule, uploads assembles episodes from chunks,
// within a credit, and trust keeps the list of blocked actors.
package collect
