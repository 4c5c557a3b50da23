package serve

import (
	"cmp"
	"context"
	"errors"
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

// rights returns a role's rights.
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

// sender is a request's sender. Without credentials everybody is an operator without a name.
type sender struct {
	role    proto.Role
	name    string
	through string // the node that forwarded the request, "" if none did
}

type senderKey struct{}

// senderOf returns the sender that admit has found.
func senderOf(r *http.Request) sender {
	s, _ := r.Context().Value(senderKey{}).(sender)
	return s
}

// admit refuses the requests of other sites' pages, and adds the sender to the context of all others.
func (a *api) admit(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		urls := a.urls()
		w.Header().Set(client.NodesHeader, strings.Join(urls, ","))
		// A name that leads to another node was not pointed here by a stranger either.
		if err := sameorigin.Check(r, sameorigin.Names(append(urls, a.url)...)...); err != nil {
			a.fail(w, client.Errorf(client.Forbidden, "%v", err))
			return
		}
		next(w, r.WithContext(context.WithValue(r.Context(), senderKey{}, a.sender(r))))
	}
}

// sender finds a request's sender by the connection's certificate or the request's token.
func (a *api) sender(r *http.Request) (s sender) {
	var err error
	forwarded, node := r.Header.Get(forwardedHeader), r.TLS == nil
	token, given := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if cookie, err := r.Cookie(tokenCookie); err == nil && !given { // a browser's
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
	if err != nil || forwarded != "" && !node {
		return sender{} // which has no rights
	}
	switch {
	case forwarded == "":
	case r.TLS == nil:
		s.name, s.through = forwarded, r.RemoteAddr
	default:
		role, name, _ := strings.Cut(forwarded, " ")
		s = sender{proto.Role(role), name, s.name}
	}
	return s
}

// unkept ends the connection after each request without a valid certificate or token.
func (a *api) unkept(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS != nil && len(r.TLS.PeerCertificates) == 0 && a.sender(r).role == "" {
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r)
	})
}

// who names a request's sender: by role and name or, without credentials, by address.
func who(r *http.Request) string {
	s := senderOf(r)
	if r.TLS == nil {
		return cmp.Or(s.name, r.RemoteAddr)
	}
	return string(s.role) + " " + s.name
}

// tokenCookie is the name of the cookie in which a browser sends its user's token.
const tokenCookie = "dbqpg-token"

// checkToken returns an error unless token is in this node's file.
func (a *api) checkToken(token string) error {
	if a.tokens == "" {
		return errors.New("this coordinator knows no tokens: start it with --tokens FILE")
	}
	role, _, err := a.tokens.Find(token)
	if err != nil {
		a.log.Error("the tokens", "error", err)
	}
	if rights(role)&look == 0 {
		return errors.New("this is not a token of this coordinator, or it has been revoked")
	}
	return nil
}

// require returns an error if a request's sender has none of the rights.
func require(r *http.Request, any right) error {
	switch role := senderOf(r).role; {
	case role == "":
		return client.Errorf(client.Forbidden, "the request has neither a valid certificate nor a valid token: give "+
			"--credentials, or --token-file with one that has not been revoked (docs/security.md)")
	case rights(role)&any == 0:
		return client.Errorf(client.Forbidden, "the role %q may not do that: see docs/security.md", role)
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
