package external

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/dbqpg/dbqpg/sim"
)

// Environments makes environments by the names of their tasks: built-in ones, those of task files, and those that
// [Gymnasium] describes.
type Environments struct {
	builtin func(name string) (sim.Env, error)

	describing sync.Mutex
	files      []*File // grows by those of Gymnasium's environments

	mu        sync.Mutex
	processes []*process // that have not failed
}

// New returns a maker of environments of the files' tasks, and of all others by builtin, which is tasks.New.
func New(builtin func(name string) (sim.Env, error), files ...*File) (*Environments, error) {
	for i, f := range files {
		if slices.ContainsFunc(files[:i], func(other *File) bool { return other.Name == f.Name }) {
			return nil, fmt.Errorf("two task files are for %s: choose one, or give one of them another name", f.Name)
		}
	}
	return &Environments{builtin: builtin, files: files}, nil
}

// Slots returns the number of concurrent episodes that fills a process of each file's command on each core.
func (e *Environments) Slots(cores int) int {
	most := 1
	for _, f := range e.files {
		most = max(most, f.Environments)
	}
	return most * cores
}

// New returns a new instance of the task of that name, which is its Spec's, to be closed. Environments of a task file
// share processes, which end with the last of their environments. They may be used concurrently.
func (e *Environments) New(name string) (sim.Env, error) {
	task, _, external := strings.Cut(name, "@")
	if !external {
		return e.builtin(name)
	}
	f, err := e.file(task)
	if err != nil {
		return nil, err
	}
	spec := f.Spec()
	if spec.Name != name {
		return nil, fmt.Errorf("the task file for %s differs from the learner's: they must agree in all but "+
			"the path of the command's program, directory, environments and limits", task)
	}
	return e.open(f, spec)
}

// file returns the task file for a task, which without one may be an environment of Gymnasium's.
func (e *Environments) file(task string) (*File, error) {
	e.describing.Lock()
	defer e.describing.Unlock()
	if i := slices.IndexFunc(e.files, func(f *File) bool { return f.Name == task }); i >= 0 {
		return e.files[i], nil
	}
	missing := fmt.Errorf("%s is not a built-in task: give the task file that its learner has, --task FILE", task)
	if !IsGymnasium(task) {
		return nil, missing
	}
	f, err := Gymnasium(task)
	if err != nil {
		return nil, fmt.Errorf("%w; in Gymnasium: %w", missing, err)
	}
	e.files = append(e.files, f)
	return f, nil
}

// open starts a process unless one has room.
func (e *Environments) open(f *File, spec sim.Spec) (sim.Env, error) {
	env := &env{environments: e, file: f, spec: spec, clipped: make([]float64, spec.ActionDim),
		call: call{wake: make(chan bool, 1)}}
	if err := env.move(); err != nil {
		return nil, err
	}
	return env, nil
}

// place finds a process that has room, or adds one, which may have yet to be started.
func (e *Environments) place(f *File) (p *process, index int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.processes {
		if i := slices.Index(p.taken, false); p.file == f && i >= 0 && !p.dead() {
			p.taken[i] = true
			return p, i
		}
	}
	p = newProcess(f)
	p.taken[0] = true
	e.processes = append(e.processes, p)
	return p, 0
}

// leave gives a place up. The last one to leave closes the process.
func (e *Environments) leave(p *process, index int) error {
	e.mu.Lock()
	p.taken[index] = false
	last := !slices.Contains(p.taken, true)
	if last {
		e.processes = slices.DeleteFunc(e.processes, func(other *process) bool { return other == p })
	}
	e.mu.Unlock()
	if last {
		return p.close()
	}
	return nil
}
