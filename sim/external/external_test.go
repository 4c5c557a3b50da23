package external_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/dbqpg/dbqpg/internal/policy"
	"github.com/dbqpg/dbqpg/internal/rollout"
	"github.com/dbqpg/dbqpg/sim"
	"github.com/dbqpg/dbqpg/sim/external"
	"github.com/dbqpg/dbqpg/sim/external/externaltest"
)

func TestMain(m *testing.M) {
	externaltest.Main()
	goleak.VerifyTestMain(m)
}

// builtin stands for tasks.New.
func builtin(name string) (sim.Env, error) { return nil, fmt.Errorf("%w %q", sim.ErrUnknownTask, name) }

func environments(t testing.TB, files ...*external.File) *external.Environments {
	t.Helper()
	e, err := external.New(builtin, files...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func open(t testing.TB, e *external.Environments, f *external.File) sim.Env {
	t.Helper()
	env, err := e.New(f.Spec().Name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Close(); err != nil {
			t.Error(err)
		}
	})
	return env
}

// play plays an episode of toys under random actions, and returns all that is seen of it.
func play(env sim.Env, seed uint64) ([]float64, error) {
	rng, observation := rand.New(rand.NewPCG(seed, 1)), make([]float64, 3)
	if err := env.Reset(rng, observation); err != nil {
		return nil, err
	}
	seen := slices.Clone(observation)
	for range 50 {
		reward, terminated, err := env.Step([]float64{rng.NormFloat64(), rng.NormFloat64()}, observation)
		if err != nil {
			return nil, err
		}
		if seen = append(append(seen, observation...), reward); terminated {
			break
		}
	}
	return seen, nil
}

// An episode is the same bits in whichever environment of whichever process it is played, whatever the others play, as
// where there is no process.
func TestEpisodes(t *testing.T) {
	const episodes = 60
	base := rand.Uint64()
	t.Logf("seed %d", base)
	var want [episodes][]float64
	for i := range want {
		seen, err := play(&externaltest.Toy{}, base+uint64(i))
		if err != nil {
			t.Fatal(err)
		}
		want[i] = seen
	}
	for _, k := range []int{1, 3, 8} {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			f := externaltest.File("", k)
			e := environments(t, f)
			var players errgroup.Group
			for player := range 4 {
				env := open(t, e, f)
				players.Go(func() error {
					for i := player; i < episodes; i += 4 {
						seen, err := play(env, base+uint64(i))
						if err != nil {
							return err
						}
						if !slices.Equal(seen, want[i]) {
							return fmt.Errorf("episode %d has %v, want %v", i, seen, want[i])
						}
					}
					return nil
				})
			}
			if err := players.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Whatever goes wrong is an error that says what, with the process's last words, and the next episode is played.
func TestFailures(t *testing.T) {
	for wrong, want := range map[string]string{
		"crash": `(?s)environment Toys: its process ended \(exit status 3\); ` +
			`its last words: Segmentation fault in gripper.c`,
		"hang": `(?s)its process hung and was killed: no answer within 500ms; ` +
			`its last words: waiting for the gripper`,
		"chatter": `its process's answer makes no sense: it begins with "gripper 1.2, ` +
			`.*only messages may be written to its standard output`,
		"close":           `its process closed its standard output`,
		"raise":           `environment Toys: ValueError: the gripper is lost`,
		"nan":             `number 1 of the observation is NaN`,
		"infinite reward": `the reward is \+Inf`,
		"wrong shape":     `makes no sense: 32 bytes where 24 to 24 belong`,
		"too many":        `makes no sense: 1 errors too many`,
	} {
		t.Run(wrong, func(t *testing.T) {
			t.Parallel()
			f := externaltest.File(wrong, 2)
			if wrong == "hang" || wrong == "close" {
				f.Limits.Step = 500 * time.Millisecond
			}
			env := open(t, environments(t, f), f)
			for range 2 {
				var err error
				for seed := uint64(0); err == nil; seed++ { // an episode may end before
					_, err = play(env, seed)
				}
				if !regexp.MustCompile(want).MatchString(err.Error()) {
					t.Errorf("%v, want %s", err, want)
				}
				if _, _, again := env.Step(make([]float64, 2), make([]float64, 3)); again == nil {
					t.Error("a step follows an error")
				}
				if wrong == "hang" {
					gone(t, err)
				}
			}
		})
	}
}

// A limit of the environment's own ends an episode as the time limit does.
func TestTruncated(t *testing.T) {
	f := externaltest.File("truncated", 2)
	env := open(t, environments(t, f), f)
	shape := policy.ShapeOf(f.Spec(), nil)
	actor, err := policy.NewActor(shape, make([]float64, shape.NumParams()), policy.Identity(3, 5))
	if err != nil {
		t.Fatal(err)
	}
	player, truncated := rollout.NewPlayer(env), 0
	for index := range uint64(20) { // some end before their third step
		e, err := player.Evaluate(actor.Act, 1, index, func() bool { return false })
		if err != nil {
			t.Fatal(err)
		}
		if ended := env.(sim.Remote).Truncated(); ended != (e.Steps() == 3 && !e.Terminated) || e.Steps() > 3 {
			t.Errorf("%d steps, terminated %v, truncated %v", e.Steps(), e.Terminated, ended)
		} else if ended {
			truncated++
			if _, _, err := env.Step(make([]float64, 2), make([]float64, 3)); !errors.Is(err, sim.ErrNotReset) {
				t.Errorf("a step after the end: %v", err)
			}
		}
	}
	if truncated == 0 {
		t.Error("no episode was truncated")
	}
}

// Discrete actions reach the process as indices; a process whose choices are others is refused.
func TestChoices(t *testing.T) {
	const bounds = "low: [-1, -1], high: [0.5, .inf]"
	for text, want := range map[string]string{
		"choices: [2, 3]": "",
		"choices: [3, 2]": "its actions have [2 3] choices, and its task file says [3 2]",
		bounds:            "its actions have [2 3] choices, and its task file says []",
	} {
		f, err := external.Parse([]byte(strings.Replace(externaltest.Text("discrete", 1), bounds, text, 1)))
		if err != nil {
			t.Fatal(err)
		}
		env, err := environments(t, f).New(f.Spec().Name)
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", text, err, want)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		spec := env.Spec()
		if !slices.Equal(spec.Choices, []int{2, 3}) || !slices.Equal(spec.High, []float64{1, 2}) {
			t.Errorf("%+v", spec)
		}
		if err := env.Close(); err != nil {
			t.Error(err)
		}
	}
}

// gone waits until the child that a hung process speaks of is no more.
func gone(t *testing.T, err error) {
	words := regexp.MustCompile(`child (\d+) <nil>`).FindStringSubmatch(err.Error())
	if words == nil {
		return // it was late for another reason, on a busy machine
	}
	for {
		status, err := os.ReadFile("/proc/" + words[1] + "/stat")
		if err != nil || strings.Contains(string(status), ") Z ") {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// A process that fails takes only those episodes with it that it was playing.
func TestNeighbours(t *testing.T) {
	f := externaltest.File("raise", 2)
	e := environments(t, f)
	env, neighbour := open(t, e, f), open(t, e, f)
	observation := make([]float64, 3)
	rng := rand.New(rand.NewPCG(1, 1))
	if err := neighbour.Reset(rng, observation); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		for seed, err := uint64(0), error(nil); err == nil; seed++ {
			_, err = play(env, seed)
		}
	}
	if _, _, err := neighbour.Step([]float64{0, 0}, observation); err != nil {
		t.Error(err)
	}
}

// A process that cannot be started, or is not what the file says, is an error at once.
func TestBadStarts(t *testing.T) {
	for wrong, want := range map[string]string{
		"exit": "its process ended (exit status 3); its last words: " +
			"ModuleNotFoundError: no module named grippers",
		"sleep":            "its process hung and was killed: no answer within 500ms",
		"refuse":           "environment Toys: ValueError: no licence for grippers",
		"other version":    "speaks version 2 of the protocol, this program 1",
		"other dimensions": "it has 4 observations and 2 actions, and its task file says 3 and 2",
		"absent":           "cannot start its command: exec: \"absent\": executable file not found in $PATH",
	} {
		t.Run(wrong, func(t *testing.T) {
			t.Parallel()
			f := externaltest.File(wrong, 2)
			switch wrong {
			case "sleep":
				f.Limits.Start = 500 * time.Millisecond
			case "absent":
				f.Command[0] = "absent"
			}
			_, err := environments(t, f).New(f.Spec().Name)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		})
	}
}

// Runs and actors know tasks by name and contents.
func TestNames(t *testing.T) {
	f := externaltest.File("", 2)
	e := environments(t, f)
	other := *f
	other.Steps = 49
	for name, want := range map[string]string{
		other.Spec().Name:    "the task file for Toys differs from the learner's",
		"Tools@0123456789ab": "Tools is not a built-in task: give the task file that its learner has, --task FILE",
		"Toys":               `unknown task "Toys"`,
	} {
		if _, err := e.New(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	if _, err := external.New(builtin, f, &other); err == nil {
		t.Error("two files for one name are accepted")
	}
	if _, err := e.New("Swimmer-v2"); !errors.Is(err, sim.ErrUnknownTask) {
		t.Errorf("a built-in task is not made by its own function: %v", err)
	}
}

// A step allocates nothing.
func TestStepAllocates(t *testing.T) {
	f := externaltest.File("", 1)
	env := open(t, environments(t, f), f)
	observation, action := make([]float64, 3), make([]float64, 2)
	if err := env.Reset(rand.New(rand.NewPCG(1, 1)), observation); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(40, func() {
		if _, _, err := env.Step(action, observation); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations a step", n)
	}
}
