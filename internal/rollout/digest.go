package rollout

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/sim"
)

const (
	digestEpisodes = 3  // to see resets, and episodes that end early
	digestSteps    = 20 // of each, at most
)

// Digest returns a SHA-256 of this machine's results for env's task, bit by bit: its description and the beginnings of
// a few episodes of a fixed policy with large actions. Machines with different digests would train different policies.
// It is "" for a task of another process, whose name has a digest of its file already. The environment must be reset
// afterwards.
func Digest(env sim.Env) (string, error) {
	if _, remote := env.(sim.Remote); remote {
		return "", nil
	}
	spec := env.Spec()
	hash := sha256.New()
	fmt.Fprintf(hash, "%+v", spec)
	shape := policy.ShapeOf(spec, []int{8})
	rng := rand.New(rand.NewPCG(1, 2))
	params := make([]float64, shape.NumParams())
	for i := range params {
		params[i] = rng.NormFloat64() / 2
	}
	actor, err := policy.NewActor(shape, params, policy.Identity(spec.ObservationDim, 5))
	if err != nil {
		return "", err
	}
	p := NewPlayer(env)
	for index := range uint64(digestEpisodes) {
		_, err := p.Play(actor, proto.Ticket{Index: index}, func() bool { return p.StepsPlayed() == digestSteps })
		fmt.Fprint(hash, err)
		e := &p.episode
		for _, part := range []any{e.Observations, e.Actions, e.Rewards, e.Terminated} {
			if err := binary.Write(hash, binary.LittleEndian, part); err != nil {
				return "", err
			}
		}
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// digests are those of the tasks that an actor plays, computed once each.
type digests struct {
	mu    sync.Mutex
	known map[string]string
}

// of returns a task's digest; the executor's environment is idle.
func (d *digests) of(task string, executor *executor, newEnv func(task string) (sim.Env, error)) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	digest, found := d.known[task]
	if found {
		return digest, nil
	}
	env, err := executor.env(task, newEnv)
	if err == nil {
		digest, err = Digest(env)
	}
	if err != nil {
		return "", err
	}
	if d.known == nil {
		d.known = make(map[string]string)
	}
	d.known[task] = digest
	return digest, nil
}

// A Replayer plays tickets as an actor would, so that an actor's result can be judged. It is for one goroutine.
type Replayer struct {
	executor *executor
	newEnv   func(task string) (sim.Env, error)
}

// NewReplayer returns a replayer, to be closed. It makes environments when it first needs them.
func NewReplayer(newEnv func(task string) (sim.Env, error)) *Replayer {
	return &Replayer{newExecutor(), newEnv}
}

// ErrNoEnvironment reports an environment that cannot be made here.
var ErrNoEnvironment = errors.New("no environment")

// Replay plays a ticket, from start if that is not nil, under a policy, and returns its encoded episode or segment, which
// names no engine. Before each step it calls stop; if that returns true, the error is ErrStopped.
func (r *Replayer) Replay(
	p *proto.Policy, t proto.Ticket, start *proto.Start, stop func() bool,
) ([]byte, error) {
	if err := r.executor.prepare(p, r.newEnv); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoEnvironment, err)
	}
	result, err := r.executor.play(t, start, stop)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(nil, result)
}

// Close frees the environments.
func (r *Replayer) Close() error { return r.executor.close() }
