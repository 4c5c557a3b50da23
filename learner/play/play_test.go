package play_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"

	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/internal/sameorigin"
	"github.com/dbqpg/dbqpg/internal/store"
	"github.com/dbqpg/dbqpg/internal/streams"
	"github.com/dbqpg/dbqpg/internal/web"
	"github.com/dbqpg/dbqpg/learner/evaluate"
	"github.com/dbqpg/dbqpg/learner/play"
	"github.com/dbqpg/dbqpg/learner/runs"
	"github.com/dbqpg/dbqpg/sim"
	"github.com/dbqpg/dbqpg/sim/tasks"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// save saves a checkpoint of an untrained policy in a run's directory.
func save(t testing.TB, directory, task string, iteration, seed uint64, settings ...string) {
	t.Helper()
	spec, err := sim.Lookup(task)
	if err != nil {
		t.Fatal(err)
	}
	shape := policy.Shape{Observation: spec.ObservationDim, Action: spec.ActionDim, Hidden: []int{16}}
	params := shape.Init(rand.New(rand.NewPCG(seed, 0)), nil)
	for i := range params {
		params[i] *= 3
	}
	all := map[string]string{"env": task, "hidden": "16", "clip": "5"}
	for i := 0; i < len(settings); i += 2 {
		all[settings[i]] = settings[i+1]
	}
	moments := make([]float64, spec.ObservationDim)
	data, err := runs.Encode(&runs.State{Counters: runs.Counters{Iteration: iteration}, Arrays: map[string][]float64{
		"policy.params": params, "normalizer.count": {1}, "normalizer.mean": moments, "normalizer.m2": moments,
	}, Networks: map[string][]int{"policy": shape.Network().Sizes}}, all)
	if err == nil {
		err = os.MkdirAll(filepath.Join(directory, "checkpoints"), 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(directory, "checkpoints", runs.FileName(iteration)), data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// serve serves the viewers of a run in a directory, which may come to exist later, and returns a URL.
func serve(t testing.TB, directory string) string {
	t.Helper()
	root, err := store.OpenDirectory(filepath.Dir(directory))
	if err != nil {
		t.Fatal(err)
	}
	run := runs.Location{Store: root, Key: filepath.Base(directory)}
	s := play.New(slog.New(slog.DiscardHandler))
	server := httptest.NewServer(sameorigin.Handler(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.ServeRun(w, r, run) })))
	t.Cleanup(server.Close)
	t.Cleanup(s.Close)
	return server.URL
}

// viewer is a page that watches.
type viewer struct {
	t     testing.TB
	ctx   context.Context
	conn  *websocket.Conn
	scene play.Message
}

func watch(t testing.TB, url, query string) *viewer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	conn, answer, err := websocket.Dial(ctx, url+"?"+query, nil)
	if err != nil {
		t.Fatal(err, answer)
	}
	conn.SetReadLimit(1 << 20)
	t.Cleanup(func() { conn.CloseNow() })
	return &viewer{t: t, ctx: ctx, conn: conn}
}

// do sends a command.
func (v *viewer) do(text string) {
	v.t.Helper()
	if err := v.conn.Write(v.ctx, websocket.MessageText, []byte(text)); err != nil {
		v.t.Fatal(err)
	}
}

// read returns the next message, or frame.
func (v *viewer) read() (m *play.Message, f *frame) {
	v.t.Helper()
	kind, data, err := v.conn.Read(v.ctx)
	if err != nil {
		v.t.Fatal(err)
	}
	if kind == websocket.MessageBinary {
		return nil, v.decode(data)
	}
	m = new(play.Message)
	if err := json.Unmarshal(data, m); err != nil {
		v.t.Fatal(err)
	}
	if m.Type == "scene" {
		v.scene = *m
	}
	return m, nil
}

// until reads frames until one is wanted.
func (v *viewer) until(wanted func(f *frame) bool) *frame {
	v.t.Helper()
	for {
		if _, f := v.read(); f != nil && wanted(f) {
			return f
		}
	}
}

// told reads messages until one of that type.
func (v *viewer) told(kind string) *play.Message {
	v.t.Helper()
	for {
		if m, _ := v.read(); m != nil && m.Type == kind {
			return m
		}
	}
}

// frame is what a viewer sees.
type frame struct {
	steps, episode   uint32
	sum              float64
	reward, time     float32
	end              uint16
	actions          []float32
	bodies, contacts []float32 // 7 and 6 numbers each
}

// decode is the slow way to read a frame.
func (v *viewer) decode(data []byte) *frame {
	v.t.Helper()
	var f frame
	for _, to := range []any{&f.steps, &f.episode, &f.sum, &f.reward, &f.time, &f.end} {
		n, err := binary.Decode(data, binary.LittleEndian, to)
		if err != nil {
			v.t.Fatal(err)
		}
		data = data[n:]
	}
	contacts := binary.LittleEndian.Uint16(data)
	f.actions = make([]float32, len(v.scene.Scene.Actuators))
	f.bodies = make([]float32, 7*(len(v.scene.Scene.Bodies)-1))
	f.contacts = make([]float32, 6*contacts)
	data = data[2:]
	for _, to := range [][]float32{f.actions, f.bodies, f.contacts} {
		n, err := binary.Decode(data, binary.LittleEndian, to)
		if err != nil {
			v.t.Fatal(err)
		}
		data = data[n:]
	}
	if len(data) > 0 {
		v.t.Fatalf("%d bytes too many in a frame", len(data))
	}
	return &f
}

func ended(f *frame) bool { return f.end != 0 }

// Watched episodes are those of an evaluation, to the last bit.
func TestEpisodesAreEvaluations(t *testing.T) {
	t.Parallel()
	run := filepath.Join(t.TempDir(), "run")
	save(t, run, "Hopper-v4", 3, 7)
	c, err := runs.OpenCheckpoint(t.Context(), run, runs.NewestCheckpoint)
	if err != nil {
		t.Fatal(err)
	}
	url := serve(t, run)
	for name, action := range map[string]evaluate.Action{"mean": evaluate.Mean, "sampled": evaluate.Sampled} {
		e, err := evaluate.Of(c, evaluate.Episodes{Action: action, Seed: 5, Count: 3})
		if err != nil {
			t.Fatal(err)
		}
		want, err := evaluate.Play(t.Context(), e)
		if err != nil {
			t.Fatal(err)
		}
		v := watch(t, url, "seed=5&checkpoint=newest&action="+name)
		v.do(`{"do":"speed","speed":4}`)
		for i, episode := range want {
			f := v.until(ended)
			if f.sum != episode.Return || int(f.steps) != episode.Length || (f.end == 1) != episode.Terminated ||
				int(f.episode) != i {
				t.Errorf("%s action, episode %d: return %v after %d steps (end %d), want %+v", name, f.episode, f.sum,
					f.steps, f.end, episode)
			}
		}
	}
}

// A frame has the poses that the engine computes, and the contacts if they are asked for.
func TestFrames(t *testing.T) {
	t.Parallel()
	run := filepath.Join(t.TempDir(), "run")
	save(t, run, "Humanoid-v4", 3, 7)
	v := watch(t, serve(t, run), "seed=2")
	v.do(`{"do":"contacts","on":true}`)
	v.do(`{"do":"pause"}`)
	v.do(`{"do":"reset","seed":9,"episode":4}`)
	for range 12 {
		v.do(`{"do":"step"}`)
	}
	c, err := runs.OpenCheckpoint(t.Context(), run, runs.NewestCheckpoint)
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Policy()
	if err != nil {
		t.Fatal(err)
	}
	actor, err := policy.NewActor(p.Shape, p.Params, p.Normalizer)
	if err != nil {
		t.Fatal(err)
	}
	env, err := tasks.New("Humanoid-v4")
	if err != nil {
		t.Fatal(err)
	}
	defer env.Close()
	spec, engine := env.Spec(), make([]float64, env.Spec().ObservationDim)
	seen, action, control := make([]float32, spec.ObservationDim), make([]float32, spec.ActionDim),
		make([]float64, spec.ActionDim)
	rng := streams.New(9, streams.Evaluation, 4)
	if err := env.Reset(rng, engine); err != nil {
		t.Fatal(err)
	}
	_, data := env.(tasks.Scene).Simulation()
	touched := 0
	for step := range uint32(13) {
		f := v.until(func(f *frame) bool { return f.episode == 4 && f.steps == step })
		var want []float32
		for b := 1; b < len(data.BodyPositions())/3; b++ {
			for _, x := range slices.Concat(data.BodyPositions()[3*b:3*b+3], data.BodyOrientations()[4*b:4*b+4]) {
				want = append(want, float32(x))
			}
		}
		if !slices.Equal(f.bodies, want) {
			t.Fatalf("step %d: poses %v, want %v", step, f.bodies, want)
		}
		if step > 0 && !slices.Equal(f.actions, action) {
			t.Errorf("step %d: action %v, want %v", step, f.actions, action)
		}
		contacts := make([]float64, 6*64)
		contacts = contacts[:6*data.Contacts(contacts)]
		for i, x := range contacts {
			if f.contacts[i] != float32(x) {
				t.Errorf("step %d: contacts %v, want %v", step, f.contacts, contacts)
			}
		}
		touched += len(f.contacts) / 6
		for i, x := range engine {
			seen[i] = float32(x)
		}
		evaluate.Mean.Act(actor, &spec, seen, rng, action)
		for i, x := range action {
			control[i] = float64(x)
		}
		if _, _, err := env.Step(control, engine); err != nil {
			t.Fatal(err)
		}
	}
	if touched == 0 {
		t.Error("the humanoid has not touched the floor")
	}
}

// A push moves the robot, as far as the command's bound lets it.
func TestPush(t *testing.T) {
	t.Parallel()
	run := filepath.Join(t.TempDir(), "run")
	save(t, run, "HalfCheetah-v4", 3, 7)
	url := serve(t, run)
	at := map[string]float32{}
	for name, command := range map[string]string{
		"left alone":     `{"do":"contacts","on":false}`,
		"pushed":         `{"do":"push","body":1,"point":[0,0,0.1],"force":[500,0,0]}`,
		"pushed back":    `{"do":"push","body":1,"point":[0,0,0.1],"force":[-500,0,0]}`,
		"pushed hard":    `{"do":"push","body":1,"point":[0,0,0.1],"force":[1e300,0,0]}`,
		"at most":        `{"do":"push","body":1,"point":[0,0,0.1],"force":[1e6,0,0]}`,
		"no such body":   `{"do":"push","body":99,"point":[0,0,0.1],"force":[500,0,0]}`,
		"not the world":  `{"do":"push","body":0,"point":[0,0,0.1],"force":[500,0,0]}`,
		"pushed lightly": `{"do":"push","body":1,"point":[0,0,0.1],"force":[5,0,0]}`,
	} {
		v := watch(t, url, "seed=5")
		v.do(`{"do":"pause"}`)
		v.do(`{"do":"reset","seed":5,"episode":1}`)
		v.until(func(f *frame) bool { return f.episode == 1 })
		v.do(command)
		for range 8 {
			v.do(`{"do":"step"}`)
		}
		at[name] = v.until(func(f *frame) bool { return f.steps == 8 }).bodies[0]
	}
	if !(at["pushed back"] < at["left alone"]-0.1 && at["left alone"] < at["pushed lightly"] &&
		at["pushed lightly"] < at["pushed"]-0.1 && at["pushed"] < at["pushed hard"]) ||
		at["pushed hard"] != at["at most"] || at["no such body"] != at["left alone"] ||
		at["not the world"] != at["left alone"] {
		t.Errorf("the torso is at %v", at)
	}
}

// A viewer who comes before the first checkpoint waits for it, and one who follows the training gets the newest policy
// with the next episode.
func TestFollow(t *testing.T) {
	t.Parallel()
	run := filepath.Join(t.TempDir(), "run")
	v := watch(t, serve(t, run), "")
	if m := v.told("note"); !strings.Contains(m.Text, "no policy yet") {
		t.Errorf("before the first checkpoint: %q", m.Text)
	}
	save(t, run, "Hopper-v4", 0, 7)
	if m := v.told("policy"); m.Iteration != 0 || m.Checkpoint != runs.NewestCheckpoint ||
		!slices.Equal(m.Checkpoints, []string{"0"}) {
		t.Errorf("the first policy: %+v", m)
	}
	v.do(`{"do":"speed","speed":4}`)
	save(t, run, "Hopper-v4", 12, 8)
	if m := v.told("policy"); m.Iteration != 12 || !slices.Equal(m.Checkpoints, []string{"0", "12"}) {
		t.Errorf("the next policy: %+v", m)
	}
	v.do(`{"do":"checkpoint","checkpoint":"0"}`)
	if m := v.told("policy"); m.Iteration != 0 || m.Checkpoint != "0" {
		t.Errorf("the checkpoint asked for: %+v", m)
	}
	v.do(`{"do":"checkpoint","checkpoint":"7"}`)
	if m := v.told("note"); !strings.Contains(m.Text, `no checkpoint "7"`) {
		t.Errorf("a checkpoint that is not there: %q", m.Text)
	}
	v.until(ended) // the viewer goes on with the one before
}

// A task of another program cannot be drawn, and a viewer is told so.
func TestExternal(t *testing.T) {
	t.Parallel()
	run := filepath.Join(t.TempDir(), "run")
	save(t, run, "Hopper-v4", 0, 7, "task", "name: Hopper-v4")
	if m := watch(t, serve(t, run), "").told("error"); !strings.Contains(m.Text, "another program") {
		t.Errorf("told %q", m.Text)
	}
}

// Viewers that do not read, and those that there is no place for, leave the others alone.
func TestViewersAreIndependent(t *testing.T) {
	t.Parallel()
	run := filepath.Join(t.TempDir(), "run")
	save(t, run, "Hopper-v4", 0, 7)
	url := serve(t, run)
	stalled := make([]*viewer, play.MaxViewers-1)
	for i := range stalled {
		stalled[i] = watch(t, url, "") // it reads nothing
	}
	v := watch(t, url, "")
	v.told("policy")
	if m := watch(t, url, "").told("error"); !strings.Contains(m.Text, "close one of them") {
		t.Errorf("one too many is told %q", m.Text)
	}
	v.do(`{"do":"speed","speed":4}`)
	v.until(func(f *frame) bool { return f.episode == 1 && ended(f) })
	stalled[0].conn.CloseNow()
	for { // its place is free as soon as the server has noticed
		another := watch(t, url, "")
		if m, _ := another.read(); m.Type == "scene" {
			return
		}
	}
}

// A program without the engine passes its viewers on, by the names of its own runs.
func TestRelay(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	directory := filepath.Join(root, "sweep", "a", "id-3", "epoch-4")
	save(t, directory, "Hopper-v4", 5, 7)
	if err := os.WriteFile(filepath.Join(directory, "config.yaml"), []byte("env: Hopper-v4\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	site, _ := serveSite(t, root)
	to, err := url.Parse(site)
	if err != nil {
		t.Fatal(err)
	}
	relay := httptest.NewServer(web.Handler(web.Config{Source: web.NewDirectory(nil), Live: web.Relay(to)}))
	defer relay.Close()
	own, foreign := http.Header{"Origin": {relay.URL}}, http.Header{"Origin": {"https://example.org"}}
	conn, _, err := websocket.Dial(t.Context(), relay.URL+"/live/?run=sweep/a", &websocket.DialOptions{HTTPHeader: own})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	conn.SetReadLimit(1 << 20)
	v := &viewer{t: t, ctx: t.Context(), conn: conn}
	if m := v.told("policy"); m.Iteration != 5 {
		t.Errorf("told %+v", m)
	}
	v.do(`{"do":"speed","speed":4}`)
	v.until(ended)
	if _, answer, err := websocket.Dial(t.Context(), relay.URL+"/live/?run=sweep/a",
		&websocket.DialOptions{HTTPHeader: foreign}); err == nil || answer.StatusCode != http.StatusForbidden {
		t.Errorf("a page of another site: %v", err)
	}
	if _, answer, err := websocket.Dial(t.Context(), relay.URL+"/live/?run=none", nil); err == nil ||
		answer.StatusCode != http.StatusNotFound {
		t.Errorf("a run that is not there: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	run := filepath.Join(t.TempDir(), "run")
	save(t, run, "Hopper-v4", 0, 7)
	url := serve(t, run)
	dial := func(query string, change func(h http.Header), host string) (*websocket.Conn, int) {
		header := http.Header{}
		change(header)
		conn, answer, err := websocket.Dial(t.Context(), url+"?"+query,
			&websocket.DialOptions{HTTPHeader: header, Host: host})
		if err != nil {
			return nil, answer.StatusCode
		}
		return conn, answer.StatusCode
	}
	nothing := func(http.Header) {}
	for name, c := range map[string]struct {
		query, host string
		change      func(h http.Header)
		code        int
	}{
		"a page of another site": {"", "", func(h http.Header) { h.Set("Origin", "https://example.org") },
			http.StatusForbidden},
		"a sandboxed page": {"", "", func(h http.Header) { h.Set("Origin", "null") }, http.StatusForbidden},
		"a rebound name": {"", "evil.example.org",
			func(h http.Header) { h.Set("Origin", "http://evil.example.org") }, http.StatusForbidden},
		"a path as a checkpoint":      {"checkpoint=../best", "", nothing, http.StatusBadRequest},
		"a seed beyond JavaScript's":  {"seed=18446744073709551615", "", nothing, http.StatusBadRequest},
		"an action that is not known": {"action=worst", "", nothing, http.StatusBadRequest},
	} {
		if conn, code := dial(c.query, c.change, c.host); conn != nil || code != c.code {
			t.Errorf("%s: %d, want %d", name, code, c.code)
		}
	}
	for name, command := range map[string]string{
		"too long": `{"do":"` + strings.Repeat("x", 2000) + `"}`,
		"unknown":  `{"do":"explode"}`,
	} {
		conn, _ := dial("", nothing, "")
		if err := conn.Write(t.Context(), websocket.MessageText, []byte(command)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		for {
			if _, _, err := conn.Read(ctx); err != nil {
				if ctx.Err() != nil {
					t.Errorf("a viewer whose command is %s stays", name)
				}
				break
			}
		}
		cancel()
		conn.CloseNow()
	}
}
