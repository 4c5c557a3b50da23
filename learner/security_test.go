package main_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/internal/credentials"
	"github.com/dbqpg/dbqpg/learner/config"
)

// With credentials, over TLS, learner and actor learn the same bits as without. No secret is in their logs, in
// config.yaml, or among their arguments and environment.
func TestCredentials(t *testing.T) {
	forEachExample(t, func(t *testing.T, e *example) {
		files := newCredentials(t)
		directory := newDirectory(t)
		learner := start(t, "learner", e.arguments(directory, "--actors", "0", "--credentials", filepath.Join(files, "learner"))...)
		url := learner.expect(`--nats (tls://\S*\d) --credentials DIR`)[1]
		stranger := start(t, "actor", "--nats", strings.Replace(url, "tls://", "nats://", 1))
		stranger.expect("^actor: .*give --credentials DIR")
		actor := start(t, "actor", "--nats", url, "--slots", "1", "--credentials", filepath.Join(files, "actor"))
		learner.iteration(1)
		shown := processFiles(t, learner) + processFiles(t, actor)
		learner.succeed()
		e.requireReference(t, directory)

		settings, err := os.ReadFile(filepath.Join(directory, config.FileName))
		if err != nil || !strings.Contains(string(settings), filepath.Join(files, "learner")) {
			t.Errorf("config.yaml: %v\n%s", err, settings)
		}
		shown += string(settings) + learner.log() + actor.log() + stranger.log()
		for _, secret := range secrets(t, files) {
			if strings.Contains(shown, secret) {
				t.Errorf("%q is shown", secret)
			}
		}
	})
}

func newCredentials(t *testing.T) (directory string) {
	t.Helper()
	directory = filepath.Join(t.TempDir(), "credentials")
	if _, err := credentials.Create(directory, nil, 365*24*time.Hour); err != nil {
		t.Fatal(err)
	}
	return directory
}

// processFiles returns what the system shows of a process: its arguments and its environment.
func processFiles(t *testing.T, p *process) (shown string) {
	t.Helper()
	for _, name := range []string{"cmdline", "environ"} {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.cmd.Process.Pid, name))
		if err != nil {
			t.Fatal(err)
		}
		shown += string(data)
	}
	return shown
}

// secrets returns every line of every secret.
func secrets(t *testing.T, directory string) (lines []string) {
	t.Helper()
	for _, pattern := range []string{"*/nats.nk", "*/*-key.pem"} {
		paths, err := filepath.Glob(filepath.Join(directory, pattern))
		if err != nil || len(paths) < 5 {
			t.Fatalf("%s: %q, %v", pattern, paths, err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(data)) {
				if line = strings.TrimSpace(line); !strings.HasPrefix(line, "-----") {
					lines = append(lines, line)
				}
			}
		}
	}
	return lines
}

// With credentials a learner takes in other machines; without, it refuses to listen for them, unless told to.
func TestListenForOthers(t *testing.T) {
	t.Parallel()
	e := examples[1]
	files := newCredentials(t)
	for _, more := range [][]string{{"--credentials", filepath.Join(files, "learner")}, {"--insecure-listen"}} {
		directory := newDirectory(t)
		learner := start(t, "learner", e.arguments(directory, append(more, "--listen", "0.0.0.0:"+strconv.Itoa(freePort(t)), "--actors", "1")...)...)
		learner.expect("actors can join")
		learner.succeed()
		e.requireReference(t, directory)
	}
	wrong := start(t, "learner", e.arguments(newDirectory(t), "--credentials", filepath.Join(files, "actor"))...)
	wrong.fail("they are those of role actor, needed is learner")
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port
}
