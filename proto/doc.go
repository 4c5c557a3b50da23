// Package proto defines what travels between a learner and its actors: the
// messages, their limits, and the subjects that they travel on.
//
// # Tickets
//
// A learner publishes policy t and gives out tickets (run, epoch, t, i). The
// ticket's random stream is derived from (seed, t, i) alone, so an [Episode] is a
// function of its [Ticket] and of the [Policy]: whoever plays it, and however
// often, the result is the same. That is why a ticket may be given out again when
// its actor falls silent, and why the first complete upload wins.
//
//	actor                            learner
//	  | -- Discover ------------------> |   to all learners: announce yourselves
//	  | <------- Announcement --------- |   to all actors: the learner's position and how many tickets it would issue
//	  | -- read policy (epoch, t) ----> |   one key a run in a key-value store
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
// A ticket may be for a segment instead: the reply then has a [Start], with the [State] at which the ticket's stream stands,
// and what is sent is a [Segment], with the state after it. It is a function of the ticket, the policy and that state.
//
// An [Announcement] is also sent every second. Like each [Reply], it says how many tickets the learner would issue now,
// so that an actor that knows several learners asks where it is needed.
//
// Every [Reply] carries the learner's [Position], the earliest batch whose
// episodes it still wants, so that an actor drops a stale episode at once. The
// epoch counts how often the run has been taken: lower epochs are refused everywhere,
// so a learner that was replaced can do no harm.
//
// # Encoding
//
// A message is one msgpack map, its fields in a fixed order, "v" (the protocol's
// [Version]) and "kind" first. Numbers, names and flags are msgpack's native types. An array
// is [type, shape, crc, bin]: type "f4" or "f8", bin the little-endian floats in row-major
// order, crc the CRC32C of bin. An encoded episode is cut into chunks, each below
// a NATS server's payload limit.
//
// # Hostile input
//
// Everything that arrives is hostile until checked. [Unmarshal] compares each
// declared length with the bytes that remain before it allocates anything, accepts
// no field that it doesn't know, and bounds every name and list; what it allocates
// stays under twice the input plus 64 KiB. Non-finite observations, actions,
// rewards and states are refused, by name, on both sides; so is a state above [MaxState].
package proto
