package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/internal/processtest"
	"github.com/dbqpg/dbqpg/sim/external/externaltest"
)

const patience = processtest.Patience

// programs is where TestMain builds the learner and the actor.
var programs string

func TestMain(m *testing.M) {
	externaltest.Main()
	if port := os.Getenv(serverPort); port != "" {
		os.Exit(serveNATS(port))
	}
	os.Exit(processtest.Build(m, &programs, "-tags", tags, ".", "./study", "../actor", "../coordinator"))
}

// process is one of the programs at work.
type process struct {
	*processtest.Process
	t testing.TB
}

// start starts one of the programs, which does not outlive the test.
func start(t testing.TB, program string, arguments ...string) *process {
	t.Helper()
	return startCommand(t, exec.Command(filepath.Join(programs, program), arguments...))
}

func startCommand(t testing.TB, cmd *exec.Cmd) *process {
	t.Helper()
	return &process{processtest.Start(t, cmd), t}
}

// iterations waits until the learner has done so many iterations of its run.
func (p *process) iterations(done int) {
	p.t.Helper()
	p.Expect(fmt.Sprintf(`msg="iteration done" iteration=%d `, done-1))
}

// url returns the URL under which actors reach the learner.
func (p *process) url() string {
	p.t.Helper()
	return p.Expect(`--nats (nats://\S*\d)`)[1]
}

// fail waits for the end, which must be an error, the last that the log has, that contains all the texts.
func (p *process) fail(texts ...string) {
	p.t.Helper()
	status := p.Wait()
	_, message, found := strings.Cut("\n"+p.Log(), "\nlearner: ")
	if status != 1 && status != 2 || !found {
		p.t.Fatalf("%s ended with status %d", p, status)
	}
	for _, text := range texts {
		if !strings.Contains(message, text) {
			p.t.Errorf("%s says\n%s\nwithout %q", p, message, text)
		}
	}
}
