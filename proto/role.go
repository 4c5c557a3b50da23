package proto

import (
	"fmt"
	"slices"
)

// A Role is what a process is to the others: what its key and its certificate stand for, and what it may do.
type Role string

// The roles.
const (
	// RoleLearner trains: it publishes policies and takes in episodes. Its server, if it has one, serves all others.
	RoleLearner Role = "learner"
	// RoleActor plays: it reads policies, asks for tickets and answers them.
	RoleActor Role = "actor"
	// RoleCoordinator keeps track of experiments.
	RoleCoordinator Role = "coordinator"
	// RoleOperator is a person, or a program in a person's place, who gives the coordinator orders.
	RoleOperator Role = "operator"
	// RoleObserver watches and changes nothing.
	RoleObserver Role = "observer"
	// RoleNATS is a NATS server of its own. It serves and asks nobody.
	RoleNATS Role = "nats"
)

// Roles returns all roles.
func Roles() []Role {
	return []Role{RoleLearner, RoleActor, RoleCoordinator, RoleOperator, RoleObserver, RoleNATS}
}

// CheckRole refuses what is no role.
func CheckRole(r Role) error {
	if !slices.Contains(Roles(), r) {
		return fmt.Errorf("role: %w: %.20q; it is one of %v", ErrInvalid, string(r), Roles())
	}
	return nil
}

// CoordinatorSubjects begins the subjects of requests to the coordinator. What follows says who may send them:
// "actor." anybody but observers, "read." anybody but actors, "learner." learners, operators and coordinators, and
// anything else, operators and coordinators.
const CoordinatorSubjects = "dbqpg-coordinator."

// EveryRun returns the subjects of all runs, with wildcards: where learners announce their [Position], and where they take
// requests.
func EveryRun() (positions string, requests []string) {
	for _, m := range []Message{new(Ask), new(Offer), new(Chunk), new(Return)} {
		requests = append(requests, "dbqpg.*.*."+m.kind())
	}
	return SubjectsOf("*").Positions(), requests
}
