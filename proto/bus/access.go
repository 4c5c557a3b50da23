package bus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/dbqpg/dbqpg/proto"
)

// A server with credentials has an account for the learners and one for each actor member. Subjects of different
// accounts are separate, except for those that the learners' account exports: requests cross over, and their replies
// return to the requester's account. Permissions alone would not suffice, since a server checks where a client
// publishes but not the reply subject it names. An actor could have the reply to a request delivered to the subject of
// a run's policy, or to all who listen for announcements.
const learnerAccount = "LEARNERS"

// outsideStore prefixes the subjects on which actors read the store. ($JS.API belongs to each account itself.)
const outsideStore = "dbqpg-store"

// responseTime is how long a client may take to answer a request.
const responseTime = "5m"

// access is the permissions of a member. In addition every member has its own inboxes, see inbox.
type access struct {
	publish, subscribe []string
}

// accessOf returns the permissions of a member, or of every member, "*"; docs/security.md documents them, and a
// test compares both with a server. Members of other roles do not connect.
func accessOf(role proto.Role, member string) access {
	positions, requests := proto.EveryRun(member)
	policies := proto.PolicyBucket
	store := []string{"STREAM.INFO.KV_" + policies, "DIRECT.GET.KV_" + policies + ".>"}
	switch role {
	case proto.RoleLearner:
		a := access{
			publish: append(requests, positions, proto.DiscoverSubject, // its local actors ask, too
				"$JS.API.INFO", "$JS.API.STREAM.CREATE.KV_"+policies, "$KV."+policies+".>"),
			// The first covers Subjects.Requests.
			subscribe: []string{"dbqpg.*.*.*.*", positions, proto.DiscoverSubject},
		}
		for _, subject := range store {
			a.publish = append(a.publish, "$JS.API."+subject)
		}
		return a
	case proto.RoleActor:
		a := access{publish: append(requests, proto.DiscoverSubject), subscribe: []string{positions}}
		for _, subject := range store {
			a.publish = append(a.publish, outsideStore+"."+subject)
		}
		return a
	}
	return access{}
}

// inbox prefixes the subjects of replies to a member. Only the member may subscribe to them.
func inbox(member string) string { return "_INBOX." + member }

// User is a member that a server admits.
type User struct {
	// Name is the member's name, a part of the subjects on which it sends requests.
	Name string
	Role proto.Role
	// URI is the one in the member's certificate.
	URI string
}

// Accounts returns the part of a NATS server's configuration that admits the users by their certificates
// (verify_and_map), each with its role's permissions. It contains no secrets, and serves for an embedded server
// ([ServerAuth]) as for any other. Users of roles that do not connect are left out.
func Accounts(users []User) (string, error) {
	learners := &account{JetStream: "enabled"}
	accounts := map[string]*account{learnerAccount: learners}
	// No subject may cover another, or messages would arrive twice.
	exported := accessOf(proto.RoleActor, "*")
	for _, subject := range exported.publish {
		learners.Exports = append(learners.Exports, map[string]string{"service": inside(subject)})
	}
	for _, subject := range exported.subscribe {
		learners.Exports = append(learners.Exports, map[string]string{"stream": subject})
	}
	for _, u := range users {
		switch u.Role {
		case proto.RoleLearner:
			learners.Users = append(learners.Users, newAccountUser(u))
		case proto.RoleActor:
			accounts[u.Name] = newActorAccount(u)
		}
	}
	var out bytes.Buffer
	out.WriteString("# Users are the URIs of certificates: the server must have tls { verify_and_map: true }.\naccounts: ")
	encoder := json.NewEncoder(&out) // the format takes JSON in
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(accounts); err != nil {
		return "", fmt.Errorf("accounts of a NATS server: %w", err)
	}
	return out.String(), nil
}

// account is an account as the server's configuration has it.
type account struct {
	JetStream string              `json:"jetstream,omitempty"`
	Users     []accountUser       `json:"users,omitempty"`
	Exports   []map[string]string `json:"exports,omitempty"`
	Imports   []map[string]any    `json:"imports,omitempty"`
}

type accountUser struct {
	User        string         `json:"user"`
	Permissions map[string]any `json:"permissions"`
}

func newAccountUser(u User) accountUser {
	a := accessOf(u.Role, u.Name)
	permissions := map[string]any{
		"publish":   map[string]any{"allow": a.publish},
		"subscribe": map[string]any{"allow": append([]string{inbox(u.Name) + ".>"}, a.subscribe...)},
	}
	if u.Role == proto.RoleLearner {
		permissions["allow_responses"] = map[string]any{"max": 1, "expires": responseTime}
	}
	return accountUser{u.URI, permissions}
}

// newActorAccount returns the account of an actor member, which imports the member's subjects and no others.
func newActorAccount(u User) *account {
	own := &account{Users: []accountUser{newAccountUser(u)}}
	a := accessOf(u.Role, u.Name)
	for _, subject := range a.publish {
		own.imports("service", inside(subject), subject)
	}
	for _, subject := range a.subscribe {
		own.imports("stream", subject, subject)
	}
	return own
}

// imports imports a subject of the learners' account under the name local.
func (a *account) imports(kind, subject, local string) {
	entry := map[string]any{kind: map[string]string{"account": learnerAccount, "subject": subject}}
	if local != subject {
		entry["to"] = local
	}
	a.Imports = append(a.Imports, entry)
}

// inside returns the name in the learners' account of a subject on which actors publish.
func inside(subject string) string {
	if rest, ok := strings.CutPrefix(subject, outsideStore+"."); ok {
		return "$JS.API." + rest
	}
	return subject
}
