package main

import (
	"os/exec"
	"strings"
	"testing"
)

// An actor plays episodes: its program contains neither an estimator nor a NATS server.
func TestProgramContainsOnlyWhatPlays(t *testing.T) {
	const module = "github.com/dbqpg/dbqpg/"
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(out), module+"internal/policy\n") {
		t.Fatalf("the program's packages are\n%s, without the policy", out)
	}
	for name := range strings.Lines(string(out)) {
		if strings.HasPrefix(name, module+"estimators") || strings.HasPrefix(name, module+"learner") ||
			strings.Contains(name, "nats-server") {
			t.Errorf("an actor's program contains %s", name)
		}
	}
}
