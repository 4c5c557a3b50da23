// Package rollout plays tickets: an episode under one policy version each. A [Player] plays; [Run] is an actor
// around any number of them, which asks learners for tickets and sends them the episodes.
//
// # Executors and slots
//
// An executor is a thread with an environment, a slot is what a learner gives a ticket to. There are two slots an executor: one
// plays while the other's episode is on its way.
//
// # Which run
//
// An actor learns of runs by their learners' announcements: one comes at once when it asks for them (proto.Discover),
// then one every second. Each says how many tickets its learner would give out that nobody plays, and so does each answer
// to a request. Before each ticket a slot draws the run to ask, each run with the probability
//
//	tickets that it would give out / the sum of those of all runs.
//
// No two actors talk to each other, and yet slots come to be spread in proportion to need: with U_r useful episodes at
// once of run r, of which P_r are played, slots leave r in proportion to P_r and come to it in proportion to U_r - P_r,
// which is at rest where P_r is in proportion to U_r. Drawing lots, slots that decide at the same moment by the same
// announcement don't all decide alike. A run between batches, or one that has enough, wants nothing and is not asked. No
// episode is cut short for another run's sake.
//
// A run is forgotten when its learner has been silent for 10 s while the server was there, or for 3 s and the server says
// that nobody takes its requests. What is held of it is dropped then. While the server is away nothing is forgotten.
//
// Whoever plays what, batches are the same: an episode is a function of its ticket and the policy.
package rollout
