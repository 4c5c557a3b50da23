package registry

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// clock is a state with a clock, for scenarios.
type clock struct {
	t *testing.T
	*State
	now time.Time
}

func newClock(t *testing.T) *clock { return &clock{t, New(), start} }

// do applies a command and fails unless it is refused with that code, "" for accepted.
func (c *clock) do(want Code, command Command) Response {
	c.t.Helper()
	command.Time = c.now
	if command.Take != nil && command.Take.Run == "" {
		chosen := *command.Take
		chosen.Run = c.free()
		command.Take = &chosen
	}
	r := c.Apply(command)
	got := Code("")
	if r.Refusal != nil {
		got = r.Refusal.Code
	}
	if got != want {
		c.t.Fatalf("got %q (%v), want %q", got, r.Refusal, want)
	}
	return r
}

// free returns the first free run, or else the first.
func (c *clock) free() string {
	i := slices.IndexFunc(c.Runs, func(r Run) bool { return r.Free(c.now) })
	return c.Runs[max(i, 0)].Name
}

// take takes the first free run.
func (c *clock) take(want Code, learner string) Hold {
	c.t.Helper()
	r := c.do(want, Command{Take: &Take{Learner: learner, TTL: 10}})
	if r.Run == nil {
		return Hold{}
	}
	return Hold{r.Run.Name, r.Run.Epoch}
}

// held fails unless a hold is refused with that code, "" for accepted.
func (c *clock) held(want Code, h Hold) {
	c.t.Helper()
	if _, r := h.Held(c.State); (r == nil) != (want == "") || r != nil && r.Code != want {
		c.t.Fatalf("%v is refused with %v, want %q", h, r, want)
	}
}

func (c *clock) commit(want Code, h Hold, iteration uint64, previous, next string) {
	c.t.Helper()
	c.do(want, Command{Commit: &Commit{Hold: h, Previous: previous, Checkpoint: Checkpoint{iteration, next, "x"},
		Steps: 15000 * iteration}})
}

// The life of two runs: the requests that are permitted to a learner, and those refused to one that was replaced.
func TestLeases(t *testing.T) {
	c := newClock(t)
	c.do("", Command{Submit: &Submit{spec("a", 1, 2)}})
	c.do(Exists, Command{Submit: &Submit{spec("a", 3)}})
	first, second := c.take("", "l1"), c.take("", "l2")
	if first != (Hold{runName("a", 1), 1}) || second != (Hold{runName("a", 2), 1}) {
		t.Fatalf("took %v and %v", first, second)
	}
	c.take(NothingNow, "l3")
	c.commit("", first, 0, "", hash(1))
	c.commit("", first, 1, hash(1), hash(2))
	c.commit("", first, 1, hash(1), hash(2)) // again
	c.commit(WrongHash, first, 2, hash(1), hash(3))
	c.commit(WrongHash, first, 3, hash(2), hash(3))
	c.commit(WrongHash, second, 0, hash(1), hash(2))

	c.do(NotFound, Command{Take: &Take{Learner: "l3", TTL: 1, Run: "nobody"}})
	c.now = c.now.Add(14 * time.Second)
	c.held("", first) // expired, but nobody has taken it
	third := c.take("", "l3")
	if third != (Hold{first.Run, 2}) {
		t.Fatalf("took %v", third)
	}
	c.commit(StaleEpoch, first, 2, hash(2), hash(3))
	c.held(StaleEpoch, first)
	c.held(NotFound, Hold{"nobody", 1})
	c.do(StaleEpoch, Command{End: &End{Hold: first, State: Done}})
	c.commit(Invalid, Hold{first.Run, 3}, 2, hash(2), hash(3))
	c.commit("", third, 2, hash(2), hash(4))
	c.do("", Command{End: &End{Hold: third, State: Done}})
	c.commit(NotRunning, third, 3, hash(4), hash(5))
	c.do(NotRunning, Command{Steer: &Steer{Name: third.Run, Action: Retry}})

	c.do("", Command{End: &End{Hold: second, State: Queued}})
	if again := c.take("", "l1"); again != (Hold{second.Run, 2}) {
		t.Fatalf("took %v", again)
	}
	c.do(Busy, Command{Remove: &Remove{"a"}})
	if r := c.do("", Command{Steer: &Steer{Name: "a", Action: Cancel}}); r.Runs != 1 {
		t.Errorf("%d runs are cancelled", r.Runs)
	}
	c.do(NotRunning, Command{Steer: &Steer{Name: "a", Action: Cancel}})
	c.do(NotFound, Command{Steer: &Steer{Name: "b", Action: Cancel}})
	c.do("", Command{Steer: &Steer{Name: second.Run, Action: Retry}})
	c.do("", Command{End: &End{c.take("", "l2"), Failed, "no disk"}})
	if run := c.Run(second.Run); run.State != Failed || run.Reason != "no disk" || run.Epoch != 3 {
		t.Errorf("%+v", run)
	}
	c.do("", Command{Remove: &Remove{"a"}})
	if len(c.Runs)+len(c.Experiments) > 0 || c.Run(second.Run) != nil {
		t.Error("something is left of a removed experiment")
	}
}

func TestRequests(t *testing.T) {
	c := newClock(t)
	c.do("", Command{Submit: &Submit{spec("a", 1, 2, 3)}})
	take := func(number uint64) Command {
		return Command{Request: Request{Client: "me", Number: number}, Take: &Take{Learner: "l1", TTL: 1}}
	}
	first, again := c.do("", take(1)), c.do("", take(1))
	if first.Run.Name != again.Run.Name || c.Run(runName("a", 2)).State != Queued {
		t.Errorf("%+v, then %+v", first, again)
	}
	other := take(1)
	other.Request.Hash = "other"
	c.do(Reused, other)
	c.do("", take(7))
	c.do(Forgotten, take(1))
	c.do(Invalid, take(0))
	for i := range MaxClients {
		c.do("", Command{Request: Request{Client: fmt.Sprintf("other%d", i), Number: 1}, Announce: &Announce{Node{"n1", "http://a"}}})
	}
	if len(c.Clients) != MaxClients {
		t.Errorf("%d clients", len(c.Clients))
	}
}

func TestBadCommands(t *testing.T) {
	bad := map[string]Command{
		"none":           {},
		"two":            {Steer: &Steer{Name: "a", Action: Cancel}, Remove: &Remove{"a"}},
		"client without": {Request: Request{Number: 1}, Steer: &Steer{Name: "a", Action: Cancel}},
		"client's name":  {Request: Request{Client: "a b", Number: 1}, Steer: &Steer{Name: "a", Action: Cancel}},
		"learner's name": {Take: &Take{Learner: "a\nb", TTL: 1}},
		"no lease":       {Take: &Take{Learner: "a"}},
		"endless lease":  {Take: &Take{Learner: "a", TTL: math.MaxInt64}},
		"hash":           {Commit: &Commit{Checkpoint: Checkpoint{SHA256: strings.Repeat("A", 64)}}},
		"previous":       {Commit: &Commit{Previous: "x", Checkpoint: Checkpoint{SHA256: hash(1)}}},
		"location": {Commit: &Commit{Checkpoint: Checkpoint{SHA256: hash(1),
			Location: strings.Repeat("x", maxText+1)}}},
		"not a number": {Commit: &Commit{Checkpoint: Checkpoint{SHA256: hash(1)},
			Summary: map[string]float64{"x": math.NaN()}}},
		"URL":               {Announce: &Announce{Node{"n1", "x"}}},
		"terminal escapes":  {End: &End{Hold: Hold{Run: "a"}, State: Failed, Reason: "\x1b[2J"}},
		"endless fault":     {End: &End{Hold: Hold{Run: "a"}, State: Queued, Reason: strings.Repeat("x", maxText+1)}},
		"empty axis":        {Submit: &Submit{Spec{Name: "a"}}},
		"value twice":       {Submit: &Submit{spec("a", 1, 1)}},
		"name with a slash": {Submit: &Submit{spec("a/b", 1)}},
		"too many":          {Submit: &Submit{tooMany()}},
		"long":              {Submit: &Submit{longNames()}},
	}
	for name, c := range bad {
		s := New()
		if r := s.Apply(c); r.Refusal == nil || r.Refusal.Code != Invalid || r.Refusal.Message == "" {
			t.Errorf("%s: %+v", name, r.Refusal)
		}
		if err := c.Check(); !errors.Is(err, &Refusal{Code: Invalid}) {
			t.Errorf("%s: check says %v", name, err)
		}
	}
}

func tooMany() Spec {
	s := spec("a")
	for i := range uint64(MaxAxis) {
		s.Seeds = append(s.Seeds, i)
	}
	for i := range 11 {
		s.Estimators = append(s.Estimators, fmt.Sprint("e", i))
	}
	for i := range 60 { // the product overflows 64 bits
		s.Overrides = append(s.Overrides, Override{Name: fmt.Sprint("o", i), Values: []string{"1", "2"}})
	}
	return s
}

func longNames() Spec {
	s := spec(strings.Repeat("n", maxName), 1)
	s.Tasks[0] = strings.Repeat("t", maxName)
	return s
}

func TestExpand(t *testing.T) {
	s := Spec{
		Name: "x", Tasks: []string{"A", "B"}, Algorithms: []string{"npg"}, Estimators: []string{"mc", "uapg"},
		Seeds:     []uint64{3, 1},
		Overrides: []Override{{Name: "rank", Values: []string{"10", "20"}}, {Name: "gamma", Values: []string{"0.9"}}},
	}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	runs := s.Expand()
	if len(runs) != 16 || s.Size() != 16 {
		t.Fatalf("%d runs, size %d", len(runs), s.Size())
	}
	for i, want := range map[int]string{0: "x/A/npg-mc-v1-s3", 1: "x/A/npg-mc-v1-s1", 2: "x/A/npg-mc-v2-s3",
		15: "x/B/npg-uapg-v2-s1"} {
		if runs[i].Name != want {
			t.Errorf("run %d is %s, want %s", i, runs[i].Name, want)
		}
	}
	if want := []Setting{{Name: "rank", Value: "20"}, {Name: "gamma", Value: "0.9"}}; !slices.Equal(runs[2].Settings, want) {
		t.Errorf("settings %v, want %v", runs[2].Settings, want)
	}
}

// Every combination is there once, under a name of its own.
func TestExpandProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		axis := rapid.SliceOfNDistinct(rapid.StringMatching(`[A-Za-z0-9=_]{1,5}`), 1, 4, rapid.ID)
		s := Spec{
			Name: "x", Tasks: axis.Draw(t, "tasks"), Algorithms: axis.Draw(t, "algorithms"),
			Estimators: axis.Draw(t, "estimators"),
			Seeds:      rapid.SliceOfNDistinct(rapid.Uint64(), 1, 4, rapid.ID).Draw(t, "seeds"),
		}
		for _, name := range rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{1,8}`), 0, 3, rapid.ID).Draw(t,
			"settings") {
			s.Overrides = append(s.Overrides, Override{Name: name, Values: axis.Draw(t, name)})
		}
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		runs := s.Expand()
		names, combinations := map[string]bool{}, map[string]bool{}
		for _, r := range runs {
			names[r.Name] = true
			combinations[fmt.Sprint(r.Task, "|", r.Algorithm, "|", r.Estimator, "|", r.Seed, "|", r.Settings)] = true
		}
		if len(runs) != s.Size() || len(names) != len(runs) || len(combinations) != len(runs) {
			t.Fatalf("%d runs, %d names, %d combinations; size %d", len(runs), len(names), len(combinations), s.Size())
		}
	})
}

func TestFull(t *testing.T) {
	c := newClock(t)
	s := spec("x")
	for i := range uint64(MaxAxis) {
		s.Seeds = append(s.Seeds, i)
	}
	for i := range 10 {
		s.Tasks = append(s.Tasks, fmt.Sprint("t", i))
	}
	s.Tasks = s.Tasks[1:]
	for i := range MaxRuns / s.Size() {
		s.Name = fmt.Sprint("x", i)
		c.do("", Command{Submit: &Submit{s}})
	}
	c.do(Full, Command{Submit: &Submit{spec("more", 1)}})
	c.do("", Command{Steer: &Steer{Name: "x0", Action: Cancel}})
	c.do("", Command{Remove: &Remove{"x0"}})
	c.do("", Command{Submit: &Submit{spec("more", 1)}})
}

// sealed returns the encoding of a state's JSON.
func sealed(body string) string {
	return header + body + fmt.Sprintf(trailer, sha256.Sum256([]byte(header+body)))
}

// A state of which any bit is another, or the end is missing, is refused.
func TestDamagedState(t *testing.T) {
	c := newClock(t)
	c.do("", Command{Submit: &Submit{spec("a", 1)}})
	good := encoded(t, c.State)
	for i := range good {
		for bit := range 8 {
			damaged := bytes.Clone(good)
			damaged[i] ^= 1 << bit
			if _, err := Decode(bytes.NewReader(damaged)); err == nil {
				t.Fatalf("bit %d of byte %d is another: accepted", bit, i)
			}
		}
		if _, err := Decode(bytes.NewReader(good[:i])); err == nil {
			t.Fatalf("the first %d of %d bytes are accepted", i, len(good))
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	c := newClock(t)
	c.do("", Command{Submit: &Submit{spec("a", 1)}})
	good := string(encoded(t, c.State))
	good = good[len(header) : len(good)-trailerSize]
	if _, err := Decode(strings.NewReader(sealed(good))); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"empty":         "",
		"cut short":     good[:len(good)-10],
		"more":          good + "{}",
		"ID":            strings.Replace(good, `"epoch":0`, `"id":1,"epoch":0`, 1),
		"state":         strings.Replace(good, `"queued"`, `"quaint"`, 1),
		"lease missing": strings.Replace(good, `"queued"`, `"running"`, 1),
		"no experiment": strings.Replace(good, `"experiment":"a"`, `"experiment":"b"`, 1),
		"not an object": "[]",
		"the same twice": strings.Replace(good, `"experiments":[`,
			`"experiments":[{"spec":{"name":"a","tasks":null,"algorithms":null,"estimators":null,"seeds":null},`+
				`"submitted":"2026-01-02T03:04:05Z"},`, 1),
	} {
		if _, err := Decode(strings.NewReader(sealed(text))); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	next := strings.Replace(sealed(good), header, fmt.Sprintf("dbqpg registry %d\n", Version+1), 1)
	if _, err := Decode(strings.NewReader(next)); err == nil ||
		!strings.Contains(err.Error(), "not a registry of this version") {
		t.Errorf("the next version: %v", err)
	}
}

// Runs are paused and resumed, extended, and taken from learners that are drained.
func TestSteering(t *testing.T) {
	c := newClock(t)
	one := spec("a", 1, 2)
	one.Priority, one.Tags = 3, []string{"paper"}
	c.do("", Command{Submit: &Submit{one}})
	first, second := c.Runs[0].Name, c.State.Runs[1].Name
	state := func(want ...RunState) {
		t.Helper()
		if got := []RunState{c.State.Run(first).State, c.State.Run(second).State}; !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	taken := c.do("", Command{Take: &Take{Learner: "l", TTL: 3600}}).Run
	if taken.Name != first || taken.Priority != 3 {
		t.Errorf("%+v", taken)
	}
	hold := Hold{first, taken.Epoch}
	c.do("", Command{Steer: &Steer{Name: "a", Action: Pause}})
	state(Paused, Paused)
	c.do(NotRunning, Command{Steer: &Steer{Name: "a", Action: Pause}})
	c.held(NotRunning, hold)
	c.do(NothingNow, Command{Take: &Take{Learner: "l", TTL: 3600}})
	c.do(Busy, Command{Remove: &Remove{"a"}})
	c.do("", Command{Steer: &Steer{Name: first, Action: Resume}})
	state(Queued, Paused)
	c.do(NotRunning, Command{Steer: &Steer{Name: first, Action: Resume}})
	c.do(NotFound, Command{Steer: &Steer{Name: "nobody", Action: Resume}})

	hold.Epoch = c.do("", Command{Take: &Take{Learner: "l", TTL: 3600}}).Run.Epoch
	c.do("", Command{Commit: &Commit{Hold: hold,
		Checkpoint: Checkpoint{Iteration: 5, SHA256: strings.Repeat("a", 64)}}})
	c.do("", Command{End: &End{Hold: hold, State: Done}})
	c.do(NotRunning, Command{Steer: &Steer{Name: first, Action: Extend, Length: Length{Iterations: 5}}})
	c.do(Invalid, Command{Steer: &Steer{Name: first, Action: Extend}})
	c.do("", Command{Steer: &Steer{Name: "a", Action: Extend, Length: Length{Iterations: 8}}})
	state(Queued, Paused)
	for _, run := range c.Runs {
		if run.Length != (Length{Iterations: 8}) {
			t.Errorf("%+v", run.Length)
		}
	}
	c.do(Invalid, Command{Steer: &Steer{Name: "a", Action: Extend, Length: Length{Iterations: 8, Steps: 9000}}})
	c.do("", Command{Steer: &Steer{Name: "a", Action: Extend, Length: Length{Steps: 9000}}}) // in place of iterations
	for _, run := range c.Runs {
		if run.Length != (Length{Steps: 9000}) {
			t.Errorf("%+v", run.Length)
		}
	}
	c.do("", Command{Steer: &Steer{Name: second, Action: Prioritize, Priority: -7}})
	c.do(Invalid, Command{Steer: &Steer{Name: second, Action: Prioritize, Priority: MaxPriority + 1}})
	if c.State.Run(first).Priority != 3 || c.State.Run(second).Priority != -7 {
		t.Error("priorities")
	}

	hold.Epoch = c.do("", Command{Take: &Take{Learner: "l", TTL: 3600}}).Run.Epoch
	c.do(NotFound, Command{Drain: &Drain{Learner: "l", Off: true}})
	if given := c.do("", Command{Drain: &Drain{Learner: "l"}}); given.Runs != 1 {
		t.Errorf("%+v", given)
	}
	state(Queued, Paused)
	c.do(NotRunning, Command{End: &End{Hold: hold, State: Queued}})
	c.do("", Command{Drain: &Drain{Learner: "l"}}) // again
	c.do(Drained, Command{Take: &Take{Learner: "l", TTL: 3600}})
	c.do("", Command{Drain: &Drain{Learner: "l", Off: true}})
	c.do("", Command{Take: &Take{Learner: "l", TTL: 3600}})
}

// Whatever a snapshot holds, it is refused or can be gone on with.
func FuzzDecode(f *testing.F) {
	s := New()
	s.Apply(Command{Time: start, Submit: &Submit{spec("a", 1, 2)}})
	s.Apply(Command{Time: start, Request: Request{Client: "me", Number: 1}, Take: &Take{Learner: "l", TTL: 1, Run: runName("a", 1)}})
	f.Add(encoded(f, s)[len(header):])
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Decode(strings.NewReader(sealed(string(data))))
		if err != nil {
			return
		}
		again, err := Decode(bytes.NewReader(encoded(t, s)))
		if err != nil || !bytes.Equal(encoded(t, again), encoded(t, s)) {
			t.Fatalf("what was decoded cannot be encoded: %v", err)
		}
		for _, run := range s.Runs {
			s.Apply(Command{Time: start.Add(time.Hour), Take: &Take{Learner: "l", TTL: 1, Run: run.Name}})
		}
		s.Apply(Command{Drain: &Drain{Learner: "l"}})
	})
}

// Whatever a command holds, it is refused or answered.
func FuzzCommand(f *testing.F) {
	f.Add([]byte(`{"submit":{"spec":{"name":"b","tasks":["t"],"algorithms":["a"],"estimators":["e"],"seeds":[1]}}}`))
	f.Add([]byte(`{"take":{"learner":"x","ttl_seconds":1}}`))
	f.Add([]byte(`{"commit":{"run":"a/Swimmer-v2/npg-uapg-s1","epoch":1,"previous":"","checkpoint":{"iteration":0,` +
		`"sha256":"","location":""},"steps":1,"summary":{"x":1e300}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var c Command
		if DecodeStrictly(data, &c) != nil {
			return
		}
		s := New()
		s.Apply(Command{Time: start, Submit: &Submit{spec("a", 1)}})
		s.Apply(Command{Time: start, Take: &Take{Learner: "l", TTL: 1, Run: runName("a", 1)}})
		r := s.Apply(c)
		if err := c.Check(); err != nil && r.Refusal == nil {
			t.Fatalf("check says %v, yet it is done", err)
		}
		if _, err := Decode(bytes.NewReader(encoded(t, s))); err != nil {
			t.Fatalf("the state after it cannot be read: %v", err)
		}
	})
}

// tenThousandRuns returns a state with ten thousand runs.
func tenThousandRuns() *State {
	s := New()
	large := spec("x")
	for i := range uint64(1000) {
		large.Seeds = append(large.Seeds, i)
	}
	for i := range 9 {
		large.Tasks = append(large.Tasks, fmt.Sprint("t", i))
	}
	s.Apply(Command{Time: start, Submit: &Submit{large}})
	return s
}

func BenchmarkCommit(b *testing.B) {
	s := tenThousandRuns()
	r := s.Apply(Command{Time: start, Take: &Take{Learner: "l", TTL: 3600, Run: s.Runs[0].Name}})
	i := 0
	for b.Loop() {
		previous := ""
		if i > 0 {
			previous = hash(i)
		}
		i++
		r := s.Apply(Command{Time: start, Request: Request{Client: "me", Number: uint64(i)}, Commit: &Commit{
			Hold: Hold{r.Run.Name, 1}, Previous: previous, Checkpoint: Checkpoint{uint64(i), hash(i), "x"},
		}})
		if r.Refusal != nil {
			b.Fatal(r.Refusal)
		}
	}
}

func BenchmarkSnapshot(b *testing.B) {
	s := tenThousandRuns()
	for b.Loop() {
		b.SetBytes(int64(len(encoded(b, s))))
	}
}
