package bus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/dbqpg/dbqpg/proto"
)

// A server with credentials has two accounts with separate subjects. Learners have the inner one. Everyone else is in
// the outer one, from which only messages on exported subjects cross over, as requests whose replies return to the
// outer account. Permissions alone would not suffice. A server checks where a client publishes, but not where it wants
// the reply: an actor could ask for a ticket, or for the store's state, and have the reply delivered to the subject
// that holds a run's policy. With two accounts that reply subject is in the requester's own account, where nobody
// listens.
const (
	insideAccount  = "TRAINING"
	outsideAccount = "OUTSIDE"
)

// outsideStore prefixes the subjects for reading the store from outside. ($JS.API belongs to each account itself.)
const outsideStore = "dbqpg-store"

// responseTime is how long a client may take to answer a request.
const responseTime = "5m"

// access is the permissions of a role. In addition every user has its own inboxes, see inbox.
type access struct {
	outside            bool
	publish, subscribe []string
}

// accessOf returns the table of permissions of a key, or of every key, "*"; docs/security.md documents it, and a
// test compares both with a server.
func accessOf(role proto.Role, key string) access {
	positions, requests := proto.EveryRun(key)
	policies := proto.PolicyBucket
	readStore := []string{"STREAM.INFO.KV_" + policies, "DIRECT.GET.KV_" + policies + ".>"}
	switch role {
	case proto.RoleLearner:
		return access{
			publish: slices.Concat([]string{positions, proto.DiscoverSubject}, requests, // its local actors ask, too
				within("$JS.API", readStore), within("$JS.API", []string{"INFO", "STREAM.CREATE.KV_" + policies}),
				[]string{"$KV." + policies + ".>"}),
			// The first covers Subjects.Requests.
			subscribe: []string{"dbqpg.*.*.*.*", positions, proto.DiscoverSubject},
		}
	case proto.RoleActor:
		return access{
			outside:   true,
			publish:   slices.Concat(requests, within(outsideStore, readStore), []string{proto.DiscoverSubject}),
			subscribe: []string{positions},
		}
	case proto.RoleCoordinator, proto.RoleOperator, proto.RoleObserver:
		return access{outside: true, subscribe: []string{positions}} // to look on
	}
	return access{}
}

func within(prefix string, subjects []string) []string {
	var all []string
	for _, s := range subjects {
		all = append(all, prefix+"."+s)
	}
	return all
}

// inbox prefixes the subjects of replies to a key. Only the key's owner may subscribe to them.
func inbox(public string) string { return "_INBOX." + public }

// User is a client that a server admits.
type User struct {
	// Name is for display.
	Name string
	Role proto.Role
	// Public is the public part of the user's key.
	Public string
}

// Accounts returns the part of a NATS server's configuration that admits the users, each with its role's
// permissions. It contains no secrets, and serves for an embedded server ([ServerAuth]) as for any other.
func Accounts(users []User) (string, error) {
	inside := &account{JetStream: "enabled"}
	outside := new(account)
	services, streams := crossing()
	for _, local := range services {
		remote := local
		if rest, ok := strings.CutPrefix(local, outsideStore+"."); ok {
			remote = "$JS.API." + rest
		}
		cross(inside, outside, "service", remote, local)
	}
	for _, subject := range streams {
		cross(inside, outside, "stream", subject, subject)
	}
	for _, u := range users {
		if err := CheckPublicKey(u.Public); err != nil {
			return "", fmt.Errorf("user %s: %w", u.Name, err)
		}
		a := accessOf(u.Role, u.Public)
		if len(a.subscribe) == 0 {
			return "", fmt.Errorf("user %s: role %q has no access to a NATS server", u.Name, u.Role)
		}
		of := inside
		if a.outside {
			of = outside
		}
		of.Users = append(of.Users, newAccountUser(u, a))
	}
	var out bytes.Buffer
	out.WriteString("accounts: ")
	encoder := json.NewEncoder(&out) // the format takes JSON in
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(map[string]*account{insideAccount: inside, outsideAccount: outside}); err != nil {
		return "", fmt.Errorf("accounts of a NATS server: %w", err)
	}
	return out.String(), nil
}

// account is an account as the server's configuration has it.
type account struct {
	JetStream string           `json:"jetstream,omitempty"`
	Users     []accountUser    `json:"users,omitempty"`
	Exports   []map[string]any `json:"exports,omitempty"`
	Imports   []map[string]any `json:"imports,omitempty"`
}

type accountUser struct {
	Nkey        string         `json:"nkey"`
	Permissions map[string]any `json:"permissions"`
}

func newAccountUser(u User, a access) accountUser {
	publish := map[string]any{"allow": a.publish}
	if len(a.publish) == 0 { // for an empty list would allow everything
		publish = map[string]any{"deny": ">"}
	}
	permissions := map[string]any{
		"publish":   publish,
		"subscribe": map[string]any{"allow": append([]string{inbox(u.Public) + ".>"}, a.subscribe...)},
	}
	if !a.outside {
		permissions["allow_responses"] = map[string]any{"max": 1, "expires": responseTime}
	}
	return accountUser{u.Public, permissions}
}

// crossing returns the subjects on which requests and announcements cross between the accounts, by their outside names:
// all that any outside role may publish or subscribe to. None may cover another, or messages would arrive twice.
func crossing() (services, streams []string) {
	for _, role := range proto.Roles() {
		if a := accessOf(role, "*"); a.outside {
			services = append(services, a.publish...)
			streams = append(streams, a.subscribe...)
		}
	}
	slices.Sort(services)
	slices.Sort(streams)
	return slices.Compact(services), slices.Compact(streams)
}

// cross exports a subject from the inner account and imports it outside, under the name local.
func cross(inside, outside *account, kind, subject, local string) {
	inside.Exports = append(inside.Exports, map[string]any{kind: subject, "accounts": []string{outsideAccount}})
	entry := map[string]any{kind: map[string]string{"account": insideAccount, "subject": subject}}
	if local != subject {
		entry["to"] = local
	}
	outside.Imports = append(outside.Imports, entry)
}
