// Package rollout plays tickets, each an episode, or a segment of a stream of episodes, under one policy version. A
// [Player] plays; [Run] is an actor with any number of them, which asks learners for tickets and sends them the
// episodes.
//
// # Executors and slots
//
// An executor is a thread with its environments; a slot holds a learner's ticket. There are two slots per
// executor: one plays while the other uploads its episode.
//
// # Which run
//
// An actor learns of runs through their learners' announcements: one arrives at once when it asks (proto.DiscoverSubject),
// then one every second. Each announcement, and each reply to a request, says how many tickets that nobody plays the
// learner would issue. Before each ticket a slot draws the run to ask, each run with the probability
//
//	tickets that it would issue / the sum of those of all runs.
//
// Although actors do not communicate with each other, slots divide in proportion to need: if U_r concurrent episodes
// of run r are useful and P_r are being played, slots leave r in proportion to P_r and join it in proportion to U_r -
// P_r, which is in equilibrium when P_r is proportional to U_r. Because they choose at random, slots that decide at
// the same moment from the same announcement don't all choose alike. A run between batches, or one that has enough,
// wants nothing and is not asked. No episode is cut short for another run's sake.
//
// A run is forgotten when its learner has been silent for 10 s while the server was up, or for 3 s if the server also
// reports that nobody receives its requests. Its tickets and episodes are then dropped. While the server is down
// nothing is forgotten.
//
// The batches do not depend on the actors: an episode is a function of its ticket and the policy.
package rollout
