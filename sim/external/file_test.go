package external_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/sim/external"
	"github.com/dbqpg/dbqpg/sim/external/externaltest"
)

func TestLoad(t *testing.T) {
	directory := t.TempDir()
	path := filepath.Join(directory, "task.yaml")
	text := "name: Mine\nobservations: 3\nactions: 1\nlow: [-2]\nhigh: [.inf]\nsteps: 20\ncommand: [python3, -m, " +
		"mine]\ndirectory: code\nlimits: {step: 2s}\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := external.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if f.Directory != filepath.Join(directory, "code") || f.Environments != 8 || f.Limits.Step.Seconds() != 2 ||
		f.Limits.Start == 0 {
		t.Errorf("%+v", f)
	}
	again, err := external.Parse([]byte(f.String()))
	if err != nil || !reflect.DeepEqual(again, f) || strings.Contains(f.String(), "\n") {
		t.Errorf("%s becomes %+v, %v", f, again, err)
	}
	elsewhere := *f
	elsewhere.Command = append([]string{"/opt/python3"}, f.Command[1:]...)
	elsewhere.Directory, elsewhere.Environments, elsewhere.Limits.Step = "/opt", 9, 1
	if !reflect.DeepEqual(elsewhere.Spec(), f.Spec()) {
		t.Errorf("where and how a process runs makes another task: %+v", elsewhere.Spec())
	}
	elsewhere.Command = []string{"python3", "-m", "other"}
	if elsewhere.Spec().Name == f.Spec().Name {
		t.Error("another command is the same task")
	}
}

// The longest episode that a task file allows fits in a message.
func TestLongestEpisode(t *testing.T) {
	const steps = (16<<20 - 4<<10) / (4*(3+2) + 8)
	text := strings.Replace(externaltest.Text("", 2), "steps: 50", fmt.Sprint("steps: ", steps), 1)
	if _, err := external.Parse([]byte(text)); err != nil {
		t.Error(err)
	}
	if _, err := external.Parse([]byte(strings.Replace(text, fmt.Sprint(steps), fmt.Sprint(steps+1), 1))); err == nil {
		t.Error("one step more is accepted")
	}
	if _, err := proto.Marshal(nil, &proto.Episode{
		Ticket: proto.Ticket{Run: "toy"}, Observations: make([]float32, 3*steps), FinalObservation: make([]float32, 3),
		Actions: make([]float32, 2*steps), Rewards: make([]float64, steps),
	}); err != nil {
		t.Error(err)
	}
}

func TestBadFiles(t *testing.T) {
	good := externaltest.Text("", 2)
	const bounds = "low: [-1, -1], high: [0.5, .inf]"
	if _, err := external.Parse([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, new, want string }{
		{good, "", "it is empty"},
		{good, "[1]", "cannot unmarshal"},
		{good, "{", "yaml:"},
		{"steps", "stepz", "field stepz not found"},
		{"Toys", "Toys@1", "it must be letters"},
		{"Toys", "Swimmer-v2", "that is a built-in task; choose another name"},
		{"observations: 3", "observations: 0", "observations 0: must be"},
		{"actions: 2", "actions: 100000", "actions 100000: must be"},
		{"steps: 50", "steps: 0", "steps 0: must be"},
		{"steps: 50", "steps: 1000000", "steps 1000000: an episode would take"},
		{"steps: 50", "steps: 9223372036854775807", "lower it"},
		{"environments: 2", "environments: 1000", "environments 1000: must be"},
		{"environments: 2", "limits: {step: -1s}", "must be above 0s"},
		{"[-1, -1]", "[-1]", "1 and 2 numbers, want one for each of 2 actions"},
		{"[-1, -1]", "[-1, .nan]", "do not bound action 1"},
		{bounds, "choices: [2]", "choices: 1 numbers, want one for each of 2 actions"},
		{bounds, "choices: [2, 0]", "choices [2 0]: each must be at least 1"},
		{bounds, "choices: [2, 65535]", "all together at most 65536"},
		{bounds, "choices: [2, 9223372036854775807]", "all together at most 65536"},
		{bounds, "choices: [2, 2], low: [0, 0]", "choices have no bounds"},
		{"[-1, -1]", "[1, -1]", "1 and 0.5 do not bound action 0"},
	} {
		if _, err := external.Parse([]byte(strings.Replace(good, c.old, c.new, 1))); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s for %s: %v, want %q", c.new, c.old, err, c.want)
		}
	}
	if _, err := external.Load(filepath.Join(t.TempDir(), "none.yaml")); err == nil ||
		!strings.Contains(err.Error(), "read the task file") {
		t.Error(err)
	}
}
