package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/credentials"
	"github.com/dbqpg/dbqpg/internal/sameorigin"
	"github.com/dbqpg/dbqpg/proto"
)

// right is a permission. Roles have several.
type right int

const (
	look       right = 1 << iota // read everything but backups
	train                        // take runs, hold them and send heartbeats
	administer                   // everything else
)

// rights returns a role's rights. Without credentials everybody is an operator.
func rights(role proto.Role) right {
	switch role {
	case proto.RoleObserver:
		return look
	case proto.RoleLearner:
		return look | train
	case proto.RoleOperator, proto.RoleCoordinator:
		return look | train | administer
	}
	return 0
}

// sender is who has sent a request. Without credentials everybody is an operator without a name.
type sender struct {
	role    proto.Role
	name    string
	through string // the node that passed it on, "" if none did
}

type senderKey struct{}

// withSender records a request's sender in its context.
func (a *API) withSender(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), senderKey{}, a.sender(r)))
}

// sender returns a request's sender, from the connection's certificate or the request's token.
func (a *API) sender(r *http.Request) (s sender) {
	var err error
	passedOn, node := r.Header.Get(forwardedHeader), r.TLS == nil
	token, given := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if cookie, err := r.Cookie(TokenCookie); err == nil && !given { // of a browser, whose requests for other sites' pages sameorigin refuses
		token, given = cookie.Value, true
	}
	switch {
	case r.TLS == nil:
		s.role = proto.RoleOperator
	case given && len(r.TLS.PeerCertificates) == 0 && a.tokens != "":
		if s.role, s.name, err = a.tokens.Find(token); err != nil {
			a.log.Error("the tokens", "error", err)
		}
	default:
		s.role, s.name, err = credentials.Peer(r.TLS)
		node = s.role == proto.RoleCoordinator
	}
	if err != nil || passedOn != "" && !node {
		return sender{} // which has no rights
	}
	switch {
	case passedOn == "":
	case r.TLS == nil:
		s.name, s.through = passedOn, r.RemoteAddr
	default:
		s.through = s.name
		role, name, _ := strings.Cut(passedOn, " ")
		s.role, s.name = proto.Role(role), name
	}
	return s
}

// who names a request's sender: by role and name or, without credentials, by address.
func who(r *http.Request) string {
	s, _ := r.Context().Value(senderKey{}).(sender)
	if r.TLS == nil {
		return cmp.Or(s.name, r.RemoteAddr)
	}
	return string(s.role) + " " + s.name
}

// TokenCookie is the name of the cookie in which a browser sends its user's token.
const TokenCookie = "dbqpg-token"

// Sender returns the name of who has sent a request, and whether they may look and administer.
func (a *API) Sender(r *http.Request) (name string, mayLook, mayAdminister bool) {
	s := a.sender(r)
	name = strings.TrimSpace(string(s.role) + " " + s.name)
	return name, rights(s.role)&look != 0, rights(s.role)&administer != 0
}

// ForLookers refuses the requests of those who may not look to a handler.
func (a *API) ForLookers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, look, _ := a.Sender(r); !look {
			http.Error(w, "log in first, or send a token or a certificate: docs/security.md", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// CheckToken returns an error for what is not a token of this node's file.
func (a *API) CheckToken(token string) error {
	if a.tokens == "" {
		return errors.New("this coordinator knows no tokens: start it with --tokens FILE")
	}
	role, _, err := a.tokens.Find(token)
	if err != nil {
		a.log.Error("the tokens", "error", err)
	}
	if rights(role)&look == 0 {
		return errors.New("that is not a token of this coordinator, or it has been revoked")
	}
	return nil
}

// Guard refuses the requests of other sites' pages to a handler, as to the API's own.
func (a *API) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sameorigin.Handler(next, a.names(a.urls())...).ServeHTTP(w, r)
	})
}

// require returns an error if a request's sender has none of the rights.
func require(ctx context.Context, any right) error {
	s, _ := ctx.Value(senderKey{}).(sender)
	if rights(s.role)&any == 0 {
		return &client.Error{Code: client.Forbidden, Message: fmt.Sprintf("the role %q may not do that: docs/security.md says what it may do", s.role)}
	}
	return nil
}

// rightFor returns the right that a command requires.
func rightFor(c *registry.Command) right {
	switch {
	case c.Take != nil, c.Commit != nil, c.End != nil:
		return train
	}
	return administer
}
