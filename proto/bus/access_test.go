package bus_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/dbqpg/dbqpg/internal/credentials"
	"github.com/dbqpg/dbqpg/internal/natsserver"
	"github.com/dbqpg/dbqpg/internal/processtest"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/proto/bus"
)

// guarded is a server with credentials, and members whom it lets in by name.
type guarded struct {
	*natsserver.Server
	t         testing.TB
	directory string
}

// newGuarded starts a server that lets in a member of each role, and a second one of each, "other-ROLE".
func newGuarded(t testing.TB) *guarded {
	t.Helper()
	g := &guarded{t: t, directory: filepath.Join(t.TempDir(), "credentials")}
	d, err := credentials.Create(g.directory, nil, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range clientRoles {
		if err := d.Add("other-"+string(role), role, nil, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	auth, err := g.load("nats").ServerAuth()
	if err != nil {
		t.Fatal(err)
	}
	g.Server = startServer(t, natsserver.Config{Auth: auth})
	return g
}

var clientRoles = []proto.Role{proto.RoleLearner, proto.RoleActor}

func (g *guarded) load(name string) *credentials.Credentials {
	g.t.Helper()
	c, err := credentials.Load(filepath.Join(g.directory, name), slog.New(slog.DiscardHandler))
	if err != nil {
		g.t.Fatal(err)
	}
	return c
}

// member returns a member's connection over TLS.
func (g *guarded) member(name string) *bus.Conn {
	g.t.Helper()
	config := quiet()
	config.Identity = g.load(name).Identity()
	c, err := bus.Connect(deadline(g.t), g.URL(), config)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(c.Close)
	return c
}

// allowed reports whether the server lets a connection do something, rather than call it a violation of permissions.
func allowed(t *testing.T, c *nats.Conn, do func() error) bool {
	t.Helper()
	before := c.LastError()
	err := do()
	if err == nil {
		err = c.FlushWithContext(deadline(t))
	}
	if err != nil {
		t.Fatal(err)
	}
	after := c.LastError()
	if after == before { //nolint:errorlint // is it another one?
		return true
	}
	if !strings.Contains(after.Error(), "Permissions Violation") {
		t.Fatal(after)
	}
	return false
}

// The table of permissions in docs/security.md, each role and subject, publishing and subscribing, is what a
// server does.
func TestPermissions(t *testing.T) {
	g := newGuarded(t)
	matrix := readMatrix(t)
	if len(matrix) < 25 {
		t.Fatalf("only %d rows", len(matrix))
	}
	var strangers []string // names of other members
	for _, role := range clientRoles {
		strangers = append(strangers, g.load("other-"+string(role)).Identity().Member)
	}
	for _, role := range clientRoles {
		t.Run(string(role), func(t *testing.T) {
			c := g.member(string(role)).NATS()
			own := g.load(string(role)).Identity().Member
			for _, r := range matrix {
				for _, subject := range r.subjects(own, strangers) {
					tryRights(t, c, role, subject, r.may[role])
				}
			}
		})
	}
}

// subjects returns those of a row for one member among others.
func (r row) subjects(own string, strangers []string) (all []string) {
	subject := strings.NewReplacer("RUN", "Swimmer-v2/npg=1", "OWN", own).Replace(r.subject)
	if !strings.Contains(subject, "OTHER") {
		return []string{subject}
	}
	for _, stranger := range strangers {
		all = append(all, strings.ReplaceAll(subject, "OTHER", stranger))
	}
	return all
}

// tryRights compares what a connection may do with a subject to a cell of the table, such as "P S".
func tryRights(t *testing.T, c *nats.Conn, role proto.Role, subject, may string) {
	t.Helper()
	subscribed := allowed(t, c, func() error {
		s, err := c.SubscribeSync(subject)
		if err == nil {
			t.Cleanup(func() { s.Unsubscribe() })
		}
		return err
	})
	if want := strings.Contains(may, "S"); subscribed != want {
		t.Errorf("%s subscribes to %s: %v, want %v", role, subject, subscribed, want)
	}
	if strings.ContainsAny(subject, "*>") {
		return
	}
	published := allowed(t, c, func() error { return c.Publish(subject, nil) })
	if want := strings.Contains(may, "P"); published != want {
		t.Errorf("%s publishes to %s: %v, want %v", role, subject, published, want)
	}
}

// row is a line of the table: what each role may do with a subject.
type row struct {
	subject string
	may     map[proto.Role]string
}

func readMatrix(t *testing.T) (rows []row) {
	t.Helper()
	text, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	var roles []string
	for line := range strings.SplitSeq(string(text), "\n") {
		cells := strings.Split(strings.Trim(line, "| "), "|")
		for i := range cells {
			cells[i] = strings.Trim(cells[i], " `")
		}
		switch {
		case cells[0] == "subject":
			roles = cells[1:]
			if len(roles) != len(clientRoles) {
				t.Fatalf("roles %q", roles)
			}
		case len(cells) == 1+len(roles) && roles != nil && !strings.HasPrefix(cells[0], "--"):
			r := row{cells[0], map[proto.Role]string{}}
			for i, role := range roles {
				r.may[proto.Role(role)] = cells[1+i]
			}
			rows = append(rows, r)
		}
	}
	return rows
}

// Who connects and does not authenticate is cut off.
func TestSilentStranger(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	conn, err := net.Dial("tcp", strings.TrimPrefix(strings.TrimPrefix(g.URL(), "nats://"), "tls://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if said, err := io.ReadAll(conn); err != nil || !bytes.HasPrefix(said, []byte("INFO")) {
		t.Errorf("a silent stranger is told %.40q, and then: %v", said, err)
	}
}

// What an actor needs works across the accounts: announcements, requests and their absence, the store.
func TestActorsWork(t *testing.T) {
	g := newGuarded(t)
	learner, actor := g.member("learner"), g.member("actor")
	subjects := proto.SubjectsOf("toy/1")
	ask := func(c *bus.Conn) string { return subjects.Request(1, new(proto.Ask), c.Member()) }
	if _, err := actor.Request(deadline(t), ask(actor), nil); err == nil ||
		!strings.Contains(err.Error(), "nobody answers") {
		t.Errorf("without a learner: %v", err)
	}
	if _, err := learner.Subscribe(subjects.Requests(1), func(m bus.Message) { m.Respond(m.Data) }); err != nil {
		t.Fatal(err)
	}
	discovered := make(chan string, 1)
	if _, err := learner.Subscribe(proto.DiscoverSubject,
		func(m bus.Message) { discovered <- string(m.Data) }); err != nil {
		t.Fatal(err)
	}
	announced := make(chan string, 1)
	if _, err := actor.Subscribe(proto.SubjectsOf("*").Positions(),
		func(m bus.Message) { announced <- string(m.Data) }); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*bus.Conn{learner, actor} {
		if err := c.Flush(deadline(t)); err != nil {
			t.Fatal(err)
		}
	}
	large := bytes.Repeat([]byte("x"), proto.MaxChunk)
	for name, c := range map[string]*bus.Conn{"actor": actor, "local actor": learner} {
		if got, err := c.Request(deadline(t), ask(c), large); err != nil || !bytes.Equal(got, large) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	if err := learner.Publish(subjects.Positions(), []byte("here")); err != nil {
		t.Fatal(err)
	}
	if got := <-announced; got != "here" {
		t.Errorf("announced %q", got)
	}
	if err := actor.Publish(proto.DiscoverSubject, []byte("who is there?")); err != nil {
		t.Fatal(err)
	}
	if got := <-discovered; got != "who is there?" {
		t.Errorf("discovered %q", got)
	}
	write, read := store(t, learner), store(t, actor)
	if _, _, err := read.Get(deadline(t), "toy/1"); !errors.Is(err, bus.ErrNotFound) {
		t.Errorf("a bucket that is not there: %v", err)
	}
	if _, err := write.Put(deadline(t), "toy/1", []byte("policy"), 0); err != nil {
		t.Fatal(err)
	}
	if value, _, err := read.Get(deadline(t), "toy/1"); err != nil || string(value) != "policy" {
		t.Errorf("the actor reads %q, %v", value, err)
	}
	if _, err := read.Put(short(t), "toy/1", []byte("mine"), 1); err == nil {
		t.Error("an actor writes a policy")
	}
}

// short returns a context for requests that are never answered.
func short(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func store(t *testing.T, c *bus.Conn) *bus.Store {
	t.Helper()
	s, err := c.Store(proto.PolicyBucket)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// No answer to an actor can be made to land where the actor may not write: not the learner's, nor the store's.
func TestAnswersStayOutside(t *testing.T) {
	g := newGuarded(t)
	learner, actor := g.member("learner"), g.member("actor").NATS()
	policies := store(t, learner)
	for _, run := range []string{"a", "b"} {
		if _, err := policies.Put(deadline(t), run, []byte("policy "+run), 0); err != nil {
			t.Fatal(err)
		}
	}
	asked := make(chan string, 100)
	if _, err := learner.Subscribe(proto.SubjectsOf("a").Requests(1), func(m bus.Message) {
		m.Respond([]byte("an answer"))
		asked <- m.Subject
	}); err != nil {
		t.Fatal(err)
	}
	if err := learner.Flush(deadline(t)); err != nil {
		t.Fatal(err)
	}
	requests := []string{
		"dbqpg.a.1.ask." + g.load("actor").Identity().Member,
		"dbqpg-store.STREAM.INFO.KV_" + proto.PolicyBucket,
		"dbqpg-store.DIRECT.GET.KV_" + proto.PolicyBucket + ".$KV." + proto.PolicyBucket + ".a",
	}
	for _, request := range requests {
		for _, reply := range []string{
			"$KV.dbqpg-policies.a", "$KV.dbqpg-policies.b", "$JS.API.STREAM.DELETE.KV_dbqpg-policies",
			"$JS.API.STREAM.PURGE.KV_dbqpg-policies",
		} {
			if err := actor.PublishRequest(request, reply, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	// The last request is answered last.
	if _, err := actor.RequestWithContext(deadline(t), requests[2], nil); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		<-asked
	}
	if err := learner.Flush(deadline(t)); err != nil {
		t.Fatal(err)
	}
	for _, run := range []string{"a", "b"} {
		value, revision, err := policies.Get(deadline(t), run)
		if err != nil || string(value) != "policy "+run || revision > 2 {
			t.Errorf("run %s: %q at revision %d, %v", run, value, revision, err)
		}
	}
}

// A reply goes to the member that asked, whatever reply subject it names: not to the others that listen there.
func TestRepliesReachNobodyElse(t *testing.T) {
	g := newGuarded(t)
	learner, actor := g.member("learner"), g.member("actor")
	positions := proto.SubjectsOf("a").Positions()
	heard := make(chan string, 100)
	for range 4 {
		for _, name := range []string{"other-actor", "other-learner"} {
			c := g.member(name)
			if _, err := c.Subscribe(positions, func(m bus.Message) { heard <- string(m.Data) }); err != nil {
				t.Fatal(err)
			}
			if err := c.Flush(deadline(t)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := learner.Subscribe(proto.SubjectsOf("a").Requests(1),
		func(m bus.Message) { m.Respond([]byte("a reply")) }); err != nil {
		t.Fatal(err)
	}
	if err := learner.Flush(deadline(t)); err != nil {
		t.Fatal(err)
	}
	ask := proto.SubjectsOf("a").Request(1, new(proto.Ask), actor.Member())
	if err := actor.NATS().PublishRequest(ask, positions, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := actor.Request(deadline(t), ask, nil); err != nil { // answered after the first
		t.Fatal(err)
	}
	if err := learner.Publish(positions, []byte("an announcement")); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		if got := <-heard; got != "an announcement" {
			t.Errorf("another member hears %q", got)
		}
	}
}

// A learner logs in to the server in its own process without TLS.
func TestInProcess(t *testing.T) {
	g := newGuarded(t)
	auth, err := g.load("learner").ServerAuth()
	if err != nil {
		t.Fatal(err)
	}
	own := startServer(t, natsserver.Config{Auth: auth})
	config := quiet()
	config.Identity = g.load("learner").Identity()
	c, err := own.Connect(config)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := store(t, c).Put(deadline(t), "run", nil, 0); err != nil {
		t.Error(err)
	}
}

// No crossing subject covers another: a message would arrive twice.
func TestCrossingSubjectsAreDisjoint(t *testing.T) {
	all := bus.Crossing()
	for i, a := range all {
		for j, b := range all {
			if i != j && server.SubjectsCollide(a, b) {
				t.Errorf("%s and %s have subjects in common", a, b)
			}
		}
	}
}

// What TLS and two accounts cost: a request with a chunk, as an actor's, and without credentials.
func BenchmarkChunk(b *testing.B) {
	g := newGuarded(b)
	open := startServer(b, natsserver.Config{})
	for _, c := range []struct {
		name           string
		learner, actor *bus.Conn
	}{
		{"credentials", g.member("learner"), g.member("actor")},
		{"none", connect(b, open), connect(b, open)},
	} {
		subjects := proto.SubjectsOf("toy")
		if _, err := c.learner.Subscribe(subjects.Requests(1), func(m bus.Message) { m.Respond(nil) }); err != nil {
			b.Fatal(err)
		}
		if err := c.learner.Flush(deadline(b)); err != nil {
			b.Fatal(err)
		}
		for _, size := range []int{100, proto.ChunkSize(1 << 20)} {
			b.Run(fmt.Sprintf("%s/%d", c.name, size), func(b *testing.B) {
				data := make([]byte, size)
				b.SetBytes(int64(size))
				for b.Loop() {
					if _, err := c.actor.Request(context.Background(),
						subjects.Request(1, new(proto.Chunk), c.actor.Member()), data); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// A server with a certificate of another authority ends the wait for it, whether it is there at once or starts later.
func TestWrongServerComesLater(t *testing.T) {
	auth, err := newGuarded(t).load("nats").ServerAuth()
	if err != nil {
		t.Fatal(err)
	}
	warned := &signal{text: "no NATS server answers", seen: make(chan struct{})}
	config := bus.ConnConfig{Log: slog.New(slog.NewTextHandler(warned, nil)),
		Identity: newGuarded(t).load("actor").Identity()}
	port := processtest.Port(t)
	result := make(chan error)
	go func() {
		c, err := bus.Connect(deadline(t), "tls://"+net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), config)
		if err == nil {
			c.Close()
		}
		result <- err
	}()
	<-warned.seen
	startServer(t, natsserver.Config{Port: port, Auth: auth})
	if err := <-result; err == nil || !strings.Contains(err.Error(), "another authority") {
		t.Error(err)
	}
}
