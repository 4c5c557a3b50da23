package play

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/internal/rollout"
	"github.com/dbqpg/dbqpg/learner/evaluate"
	"github.com/dbqpg/dbqpg/learner/runs"
	"github.com/dbqpg/dbqpg/sim"
	"github.com/dbqpg/dbqpg/sim/mujoco"
	"github.com/dbqpg/dbqpg/sim/tasks"
)

const (
	// frameInterval is the time between frames, at least.
	frameInterval = time.Second / 60
	// burst is how far ahead of time steps are taken: a Humanoid's, 15 ms long, in pairs. The processor wakes half as
	// often, and the page moves smoothly between frames.
	burst = 20 * time.Millisecond
	// retryInterval is how long a viewer of a run without a policy waits before it looks again.
	retryInterval = time.Second
	// endInterval is how long the end of an episode is shown.
	endInterval = 700 * time.Millisecond
	// maxLate is how far behind time the simulation may be before it gives the time up.
	maxLate = 100 * time.Millisecond
	// maxSingle is how many single steps can be outstanding.
	maxSingle = 16
	// loadTimeout is how long a checkpoint may take to arrive.
	loadTimeout = 30 * time.Second
)

// Message is a message to a viewer.
type Message struct {
	// Type is the message's subject:
	//
	//	scene     the model, once, before the first frame
	//	policy    which checkpoint is being played from now on, and which there are
	//	note      Text is to be shown; the viewer goes on
	//	error     Text says why there is nothing to be seen; trying again is of no use
	Type        string        `json:"type"`
	Text        string        `json:"text,omitempty"`
	Task        string        `json:"task,omitempty"`
	Scene       *mujoco.Scene `json:"scene,omitempty"`
	StepSeconds float64       `json:"stepSeconds,omitempty"`
	TimeLimit   int           `json:"timeLimit,omitempty"`   // in steps
	Checkpoint  string        `json:"checkpoint,omitempty"`  // as asked for
	Iteration   uint64        `json:"iteration,omitempty"`   // that it has
	Checkpoints []string      `json:"checkpoints,omitempty"` // to choose from; none for a single one
}

// hopeless is an error that trying again does not mend.
type hopeless struct{ error }

// A viewer watches a policy.
type viewer struct {
	run      runs.Location
	send     func(m Message) error    // tells the viewer
	draw     func(frame []byte) error // shows a frame
	commands <-chan Command

	which       string   // checkpoint asked for
	checkpoints []string // that there are
	loaded      string   // checkpoint that is played, if it is an iteration's, which never changes
	sum         string   // its SHA-256; "": none is played
	iteration   uint64
	actor       *policy.Actor
	stage       *stage // nil before there is a policy
	player      *rollout.Player

	action  evaluate.Action
	seed    uint64
	episode uint64
	speed   float64
	paused  bool
	single  int       // steps to take though paused
	restart bool      // a command wants another episode
	next    time.Time // when the next step is due
	shown   time.Time // when the next frame may be shown
	buffer  []byte
	timer   *time.Timer
}

// watch plays one episode after another until ctx is done or the viewer is lost.
func (v *viewer) watch(ctx context.Context) (err error) {
	v.timer = time.NewTimer(0)
	defer v.timer.Stop()
	defer func() {
		if v.stage != nil {
			err = errors.Join(err, v.stage.Close())
		}
	}()
	for ctx.Err() == nil {
		if err := v.load(ctx); err != nil {
			if err := v.explain(err); err != nil {
				return err
			}
		}
		if v.restart = false; v.stage == nil {
			v.idle(ctx, retryInterval)
			continue
		}
		v.stage.episode = v.episode
		_, err := v.player.Evaluate(v.act, v.seed, v.episode, func() bool { return v.stop(ctx) })
		var engine *mujoco.Error
		switch {
		case errors.Is(err, rollout.ErrStopped):
			continue
		case errors.As(err, &engine), errors.Is(err, tasks.ErrReward): // after a push that was too much
			if err := v.send(Message{Type: "note", Text: err.Error()}); err != nil {
				return err
			}
		case err != nil:
			return err
		}
		if v.idle(ctx, endInterval); !v.restart {
			v.episode = (v.episode + 1) % maxIndex
		}
	}
	return context.Cause(ctx)
}

// explain tells the viewer of an error, and returns one if there is no use in going on.
func (v *viewer) explain(err error) error {
	var final hopeless
	if errors.As(err, &final) {
		return errors.Join(err, v.send(Message{Type: "error", Text: err.Error()}))
	}
	text := err.Error()
	if errors.Is(err, runs.ErrNone) || errors.Is(err, fs.ErrNotExist) {
		text = "There is no policy yet: the first one comes with the first checkpoint."
	}
	return v.send(Message{Type: "note", Text: text})
}

func (v *viewer) act(observation []float32, rng *rand.Rand, action []float32) {
	v.action.Act(v.actor, &v.stage.spec, observation, rng, action)
}

// stop waits until the next step is due. It reports whether there is none.
func (v *viewer) stop(ctx context.Context) bool {
	for !v.restart && ctx.Err() == nil {
		var due <-chan time.Time
		if !v.paused || v.single > 0 {
			ahead := time.Until(v.next)
			if ahead < burst {
				ahead = 0
			}
			v.timer.Reset(ahead)
			due = v.timer.C
		}
		if v.obey(ctx, due) {
			v.single = max(0, v.single-1)
			v.next = advance(v.next, maxLate, time.Duration(v.stage.dt/v.speed*float64(time.Second)))
			return false
		}
	}
	return true
}

// idle obeys the viewer's commands for a while.
func (v *viewer) idle(ctx context.Context, d time.Duration) {
	for v.timer.Reset(d); !v.restart && ctx.Err() == nil && !v.obey(ctx, v.timer.C); {
	}
}

// advance returns the time that is an interval after t, which may be in the past, but no more than late.
func advance(t time.Time, late, interval time.Duration) time.Time {
	if earliest := time.Now().Add(-late); t.Before(earliest) {
		t = earliest
	}
	return t.Add(interval)
}

// obey waits for a command, and obeys it, or for the time that is due, which it reports.
func (v *viewer) obey(ctx context.Context, due <-chan time.Time) bool {
	select {
	case <-ctx.Done():
	case <-due:
		return true
	case c := <-v.commands:
		v.do(c)
	}
	return false
}

// do obeys a command.
func (v *viewer) do(c Command) {
	switch c.Do {
	case "pause":
		v.paused = true
	case "play":
		v.paused = false
	case "step":
		v.paused, v.single = true, min(v.single+1, maxSingle)
	case "speed":
		v.speed = c.Speed
	case "action":
		v.action = actions[c.Action]
	case "reset":
		v.seed, v.episode, v.restart = c.Seed, c.Episode, true
	case "checkpoint":
		v.which, v.restart = c.Checkpoint, true
	}
	if v.stage == nil {
		return
	}
	switch c.Do {
	case "push":
		v.stage.startPush(c)
	case "contacts":
		v.stage.contacts = c.On
		_ = v.show(true) // if the viewer is lost, that is found out without this
	}
}

// show draws the present state, unless the viewer has had enough frames and does not need it.
func (v *viewer) show(needed bool) error {
	if !needed && !v.paused && time.Now().Before(v.shown) {
		return nil
	}
	v.shown = advance(v.shown, frameInterval, frameInterval)
	v.buffer = v.stage.frame(v.buffer[:0])
	return v.draw(v.buffer)
}

// load makes the checkpoint that is asked for the one that is played.
func (v *viewer) load(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	names, err := v.run.List(ctx)
	if err != nil {
		return err
	}
	which := v.which
	if which == runs.NewestCheckpoint && len(names) > 0 && names[len(names)-1] != runs.BestCheckpoint {
		which = names[len(names)-1]
	}
	if len(names) == 0 { // a single checkpoint
		which = ""
	}
	changed := !slices.Equal(names, v.checkpoints)
	v.checkpoints = names
	if v.sum == "" || which != v.loaded || which == runs.BestCheckpoint {
		c, err := v.run.Open(ctx, which)
		if err != nil {
			return err
		}
		if c.SHA256 != v.sum {
			if err := v.play(c); err != nil {
				return err
			}
			changed = true
		}
		v.loaded = which
	}
	if !changed {
		return nil
	}
	return v.send(Message{
		Type: "policy", Checkpoint: cmp.Or(v.which, which), Iteration: v.iteration, Checkpoints: names,
	})
}

// play makes a checkpoint's policy the one that is played.
func (v *viewer) play(c *runs.Checkpoint) error {
	if c.Settings["task"] != "" {
		return hopeless{fmt.Errorf("%s is simulated by another program (its task file): it cannot be drawn", c.Task())}
	}
	p, err := c.Policy()
	if err != nil {
		return err
	}
	actor, err := policy.NewActor(p.Shape, p.Params, p.Normalizer)
	if err != nil {
		return err
	}
	spec, err := c.Spec()
	if err != nil {
		return hopeless{err}
	}
	if spec.ObservationDim != p.Shape.Observation || spec.ActionDim != p.Shape.Action ||
		v.stage != nil && v.stage.spec.Name != spec.Name {
		return hopeless{fmt.Errorf("%s: its policy is for another task than %s", c.Location, spec.Name)}
	}
	if v.stage == nil {
		if err := v.open(spec); err != nil {
			return err
		}
	}
	v.actor, v.sum, v.iteration = actor, c.SHA256, c.State.Iteration
	return nil
}

// open opens the stage, and describes it to the viewer.
func (v *viewer) open(spec sim.Spec) error {
	env, err := tasks.New(spec.Name)
	if err != nil {
		return hopeless{err}
	}
	model, data := env.(tasks.Scene).Simulation()
	scene := model.Scene()
	s := &stage{Env: env, spec: spec, data: data, mass: scene.Mass, dt: env.(tasks.Scene).StepSeconds(), show: v.show}
	m := Message{Type: "scene", Task: spec.Name, Scene: scene, StepSeconds: s.dt, TimeLimit: spec.TimeLimit}
	if err := v.send(m); err != nil {
		return errors.Join(err, env.Close())
	}
	v.stage, v.player = s, rollout.NewPlayer(s)
	return nil
}
