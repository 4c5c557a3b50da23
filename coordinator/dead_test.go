package main_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/client"
	"github.com/dbqpg/dbqpg/coordinator/registry"
)

// What has died is shown as dead: a learner whose lease has expired, a node that the leader cannot reach. What has
// left is not shown.
func TestTheDeadAreShownAsDead(t *testing.T) {
	t.Parallel()
	nodes := serveThree(t)
	c := newClient(t, nodes[0].url, nodes[1].url, nodes[2].url)
	ctx := deadline(t)
	if _, err := c.Submit(ctx, spec("x", 1)); err != nil {
		t.Fatal(err)
	}
	run, err := c.Take(ctx, registry.Take{Learner: "gpu7", TTL: registry.MinTTL.Seconds()})
	if err != nil {
		t.Fatal(err)
	}
	heartbeat := client.Heartbeat{Learner: "gpu7", Run: run.Name, Slots: 3}
	if err := c.Heartbeat(ctx, heartbeat); err != nil {
		t.Fatal(err)
	}
	// the lease has expired
	if free, err := c.Runs(ctx, client.Query{Free: true, Wait: patience}); err != nil || len(free.Runs) != 1 {
		t.Fatal(free, err)
	}
	leads := leader(t, c, nodes)
	victim := nodes[slices.IndexFunc(nodes, func(n *node) bool { return n != leads })]
	victim.Kill()
	awaitSilence(t, c, victim.id, true)
	for line, want := range map[string]string{
		"list x":                 "gpu7 (last heard ",
		"show " + run.Name:       "learner      gpu7 (lost: ",
		"show " + run.Name + " ": "last heard   2",
		"nodes":                  victim.id + "    follower (silent, last heard ",
		"nodes ":                 "gpu7     lost   ",
	} {
		if out, complaint, status := ask(t, leads.url, line); status != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: no %q in\n%s%s", line, want, out, complaint)
		}
	}
	heartbeat.Gone = true
	if err := c.Heartbeat(ctx, heartbeat); err != nil {
		t.Fatal(err)
	}
	victim.start()
	awaitSilence(t, c, victim.id, false)
	if out, _, status := ask(t, leads.url, "nodes"); status != 0 || strings.Contains(out, "gpu7") ||
		strings.Contains(out, "silent") {
		t.Error(out)
	}
}

// ask runs a command whose words are in a line.
func ask(t *testing.T, url, line string) (output, complaint string, status int) {
	t.Helper()
	return run(t, url, "", strings.Fields(line)...)
}

// awaitSilence waits until the leader finds a node silent, or not.
func awaitSilence(t *testing.T, c *client.Client, id string, silent bool) {
	t.Helper()
	for ctx := deadline(t); ; {
		all, err := c.Nodes(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(all, func(n client.Node) bool { return n.ID == id && n.Silent.IsZero() != silent }) {
			return
		}
		time.Sleep(20 * time.Millisecond) // there is no event to wait for
	}
}
