// Package proto defines the messages between a learner and its actors, their limits, and
// their subjects.
//
// # Tickets
//
// For each batch b a learner publishes a policy and issues tickets (run, epoch, b, i). The
// ticket's random stream is derived from (seed, b, i) alone, so an [Episode] is a
// function of its [Ticket] and the [Policy], no matter which actor plays it, or how often.
// Therefore a ticket may be issued again when its actor falls silent, and the first complete
// upload wins.
//
//	actor                            learner
//	  | -- (empty) -------------------> |   to all learners: announce yourselves
//	  | <------- Announcement --------- |   to all actors: the learner's position and how many tickets it would issue
//	  | -- read policy (epoch, b) ----> |   one key per run in a key-value store
//	  | -- Ask -----------------------> |
//	  | <------ Reply{OK, Ticket} ----- |   or Wait
//	  |  (plays the episode)            |
//	  | -- Offer{Ticket, Size} -------> |   only above InlineEpisode bytes
//	  | <------ Reply{OK} ------------- |   or Wait: no credit for now
//	  | -- Chunk{1 of n} -------------> |
//	  | <------ Reply{OK} ------------- |
//	  | -- Chunk{n of n} -------------> |
//	  | <------ Reply{OK, Ticket} ----- |   the episode is in the ledger; the next ticket, while there are many
//
// A ticket may be for a segment instead: the reply then has a [Start], with the [State] of the ticket's stream, and the
// actor sends a [Segment], with the state after it. It is a function of the ticket, the policy and that state.
//
// An [Announcement] is also sent every second. Like each [Reply], it says how many tickets the learner would issue now,
// so that an actor that knows several learners asks the one that needs it.
//
// Every [Reply] carries the learner's [Position], so that an actor drops a stale episode at
// once. The epoch counts how often the run has been taken: lower epochs are refused
// everywhere, so a learner that was replaced can do no harm.
//
// # Encoding
//
// A message is the msgpack list [Version, kind, fields]. Each struct is the list of its fields, in
// their order in Go; an optional one may be nil. An [Array] is a byte string: its elements,
// little-endian, and their CRC32C, big-endian. An encoded episode is cut into chunks, each below
// a NATS server's payload limit.
//
// # Hostile input
//
// Everything that arrives is hostile until checked. [Unmarshal] compares each
// declared length with the bytes that remain before it allocates anything, accepts
// exactly the fields of a message, and bounds every name and list; it allocates less than
// twice the input plus 64 KiB. Observations, actions,
// rewards and states that are not finite, or beyond [MaxNumber], are refused, by name, on both sides; so is a state above [MaxState].
package proto
