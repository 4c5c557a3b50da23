package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/dbqpg/dbqpg/sim"
)

// The list has every task, and the goals of the page on the preset best.
func TestTasks(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("study/experiments/best.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var best struct {
		Quantities map[string]struct{ Goals map[string]float64 }
	}
	if err := yaml.Unmarshal(text, &best); err != nil {
		t.Fatal(err)
	}
	goals := best.Quantities["goal"].Goals
	out, err := exec.Command(filepath.Join(programs, "learner"), "tasks").Output()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")[1:]
	if len(lines) != len(sim.Tasks()) || len(goals) == 0 {
		t.Fatalf("%d tasks, %d goals:\n%s", len(lines), len(goals), out)
	}
	for i, task := range sim.Tasks() {
		goal := "-"
		if g, ok := goals[task.Name]; ok {
			goal = fmt.Sprint(g)
		}
		want := fmt.Sprintf("%s %d %d ±%v %d %s", task.Name, task.ObservationDim, task.ActionDim, task.High[0],
			task.TimeLimit, goal)
		if got := strings.Join(strings.Fields(lines[i]), " "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A refused command line ends with 2, a failure with 1.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]int{
		"learner --iteration 5": 2, "learner --batch x": 2, "learner bnech": 2, "learner --env Swimer-v2": 2,
		"learner evaluate": 2, "learner tasks x": 2, "learner evaluate nowhere": 1, "learner --help": 0, "study bets": 2,
		"actor": 2, "actor --nats nats://127.0.0.1:1 --slots 0": 2, "coordinator subimt": 2, "coordinator show": 2,
		"coordinator list --coordinator http://127.0.0.1:1 --timeout 1s": 1,
	} {
		words := strings.Fields(line)
		cmd := exec.Command(filepath.Join(programs, words[0]), words[1:]...)
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("%s: exit code %d, want %d:\n%s", line, got, want, out)
		}
	}
}
