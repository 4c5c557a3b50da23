package proto

import (
	"fmt"
	"slices"
)

// A Role is the set of rights that a member's key and certificate confer.
type Role string

// The roles.
const (
	// RoleLearner trains: it publishes policies and receives episodes. Its embedded server, if any, serves all others.
	RoleLearner Role = "learner"
	// RoleActor plays: it reads policies, asks for tickets and sends episodes.
	RoleActor Role = "actor"
	// RoleCoordinator keeps track of experiments.
	RoleCoordinator Role = "coordinator"
	// RoleOperator submits and controls experiments.
	RoleOperator Role = "operator"
	// RoleObserver only reads.
	RoleObserver Role = "observer"
	// RoleNATS is a separate NATS server. It serves, and connects to nobody.
	RoleNATS Role = "nats"
)

// Roles returns all roles.
func Roles() []Role {
	return []Role{RoleLearner, RoleActor, RoleCoordinator, RoleOperator, RoleObserver, RoleNATS}
}

// CheckRole returns an error unless r is a role.
func CheckRole(r Role) error {
	if !slices.Contains(Roles(), r) {
		return fmt.Errorf("role: %w: %.20q; it is one of %v", ErrInvalid, string(r), Roles())
	}
	return nil
}

// EveryRun returns the subjects of all runs, with wildcards: for announcements, and for a key's requests to learners.
func EveryRun(key string) (positions string, subjects []string) {
	for _, m := range []Request{new(Ask), new(Offer), new(Chunk), new(Return)} {
		subjects = append(subjects, "dbqpg.*.*."+m.kind()+"."+key)
	}
	return SubjectsOf("*").Positions(), subjects
}
