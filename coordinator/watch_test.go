package main_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/processtest"
)

// watch starts "coordinator watch".
func watch(t *testing.T, url, experiment string) *processtest.Process {
	t.Helper()
	cmd := exec.Command(filepath.Join(programs, "coordinator"), "watch", experiment, "--coordinator", url)
	return processtest.Start(t, cmd)
}

// take leases a run and returns the hold on it.
func take(t *testing.T, c *client.Client) registry.Hold {
	t.Helper()
	run, err := c.Take(deadline(t), registry.Take{Learner: "l", TTL: registry.MaxTTL.Seconds()})
	if err != nil {
		t.Fatal(err)
	}
	return registry.Hold{Run: run.Name, Epoch: run.Epoch}
}

// watch ends with 0 if all runs are done, and with 1 if one has failed or was cancelled. While nobody answers it says
// so, and goes on.
func TestWatch(t *testing.T) {
	t.Parallel()
	n := serveOne(t)
	c := newClient(t, n.url)
	for _, name := range []string{"good", "bad"} {
		if _, err := c.Submit(deadline(t), spec(name, 1, 2)); err != nil {
			t.Fatal(err)
		}
	}
	good, bad := watch(t, n.url, "good"), watch(t, n.url, "bad")
	good.Expect("queued .*good/Swimmer-v2/npg-uapg-s2")
	bad.Expect("queued .*bad/Swimmer-v2/npg-uapg-s2")
	for range 2 {
		if _, err := c.End(deadline(t), registry.End{Hold: take(t, c), State: registry.Done}); err != nil {
			t.Fatal(err)
		}
	}
	good.Succeed()
	one := watch(t, n.url, "bad/Swimmer-v2/npg-uapg-s2")
	one.Expect("queued ")
	n.Kill()
	bad.MayFail()
	one.MayFail()
	bad.Expect("nobody answers; still trying")
	n.start()
	bad.Expect("the coordinator answers again")
	if _, err := c.End(deadline(t), registry.End{Hold: take(t, c), State: registry.Failed,
		Reason: "it has no luck"}); err != nil {
		t.Fatal(err)
	}
	bad.Expect("failed .*it has no luck")
	if _, err := c.Do(deadline(t), registry.Command{Steer: &registry.Steer{Name: "bad",
		Action: registry.Cancel}}); err != nil {
		t.Fatal(err)
	}
	if status := bad.Wait(); status != 1 || !strings.Contains(bad.Log(), "of 2 runs, 1 failed and 1 were cancelled") {
		t.Errorf("status %d:\n%s", status, bad.Log())
	}
	if status := one.Wait(); status != 1 || !strings.Contains(one.Log(), "of 1 runs, 0 failed and 1 were cancelled") ||
		strings.Contains(one.Log(), "npg-uapg-s1") {
		t.Errorf("one run: status %d:\n%s", status, one.Log())
	}
}

// What no waiting mends is said at once: each command would otherwise try for an hour.
func TestLastingErrors(t *testing.T) {
	t.Parallel()
	directory := newCredentials(t)
	addresses := holdAddresses(t, 3)
	plain := serveOne(t)
	secure := serve(t, "n1", t.TempDir(), addresses[0], addresses[1], "--credentials",
		filepath.Join(directory, "coordinator"))
	secure.Expect("msg=ready")
	https := func(url string) string { return strings.Replace(url, "http:", "https:", 1) }
	for _, c := range []struct{ url, role, want string }{
		{"http://" + addresses[2], "", "nothing listens at http://" + addresses[2]},
		{"http://" + addresses[2] + ",https://" + addresses[2], "", "nothing listens at https://" + addresses[2]},
		{https(plain.url), "operator", "its URL begins with http://"},
		{secure.url, "", "takes https only: use " + https(secure.url) + " and --credentials DIR"},
		{https(secure.url), "", "is not trusted: give --credentials DIR"},
		{https(secure.url), "actor", "does not accept this client's certificate"},
		{"http://nowhere.invalid:7070", "", "there is no host called nowhere.invalid"},
	} {
		arguments := []string{"list", "--timeout", "1h"}
		if c.role != "" {
			arguments = append(arguments, "--credentials", filepath.Join(directory, c.role))
		}
		if out, complaint, status := run(t, c.url, "", arguments...); status != 1 ||
			!strings.Contains(complaint, c.want) || strings.Count(complaint, "\n") != 1 {
			t.Errorf("%s: status %d, %s%s, want %q", c.url, status, out, complaint, c.want)
		}
	}
}

// A coordinator whose disk is full says so at once.
func TestDiskFullIsSaid(t *testing.T) {
	t.Parallel()
	addresses := holdAddresses(t, 2)
	n := serveWithin(t, small, "n1", t.TempDir(), addresses[0], addresses[1])
	n.Expect("msg=ready")
	var seeds []string
	for seed := range 900 {
		seeds = append(seeds, fmt.Sprint(seed))
	}
	for i := range 10_000 {
		sweep := fmt.Sprintf("{name: e%d, tasks: Swimmer-v2, seeds: [%s]}", i, strings.Join(seeds, ","))
		if _, complaint, status := run(t, n.url, sweep, "submit", "-", "--timeout", "1h"); status != 0 {
			if !strings.Contains(complaint, "this node cannot write its records") ||
				!strings.Contains(complaint, "make room on its disk") {
				t.Error(complaint)
			}
			return
		}
	}
	t.Error("the disk is never full: the test shows nothing")
}
