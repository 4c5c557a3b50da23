package browsertest

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/dbqpg/dbqpg/internal/processtest"
)

// command runs a command of the coordinator's program to its end.
func command(t *testing.T, arguments ...string) string {
	t.Helper()
	output, err := exec.CommandContext(processtest.Context(t), filepath.Join(programs, "coordinator"),
		arguments...).CombinedOutput()
	if err != nil {
		t.Fatalf("coordinator %s: %v\n%s", strings.Join(arguments, " "), err, output)
	}
	return string(output)
}

// write makes a file.
func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sweep.yaml")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// Every node of a cluster shows all runs, also those of workers that died, and after the leader's death the others go
// on.
func TestThreeNodes(t *testing.T) {
	t.Parallel()
	needPackages(t)
	kept, addresses := t.TempDir(), make([]string, 6)
	for i := range addresses {
		addresses[i] = processtest.Address(t)
	}
	peers := fmt.Sprintf("n1=%s,n2=%s,n3=%s", addresses[1], addresses[3], addresses[5])
	var nodes []*processtest.Process
	var urls []string
	for i := range 3 {
		nodes = append(nodes, start(t, "coordinator", "serve", "--node-id", fmt.Sprint("n", i+1), "--data-dir",
			t.TempDir(), "--http", addresses[2*i],
			"--raft", addresses[2*i+1], "--peers", peers, "--checkpoints", kept))
		urls = append(urls, "http://"+addresses[2*i]+"/")
	}
	for _, n := range nodes {
		n.Expect("msg=ready")
	}
	all := strings.Join(urls, ",")
	command(t, "submit", "--coordinator", all,
		write(t, "name: pendulum\ntasks: InvertedPendulum-v5\nestimators: mc\noverrides: {batch: 500, "+
			"iterations: 5000, evaluate_every: 2}\n"))
	worker := start(t, "learner", "worker", "--worker-name", "w1", "--coordinator", all, "--checkpoints", kept,
		"--actors", "1", "--lease-term", "1s")
	worker.Expect(`msg="iteration done" iteration=3 `)
	leader := 0
	for line := range strings.Lines(command(t, "nodes", "--coordinator", all)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[1] == "leader" {
			_, _ = fmt.Sscanf(fields[0], "n%d", &leader)
		}
	}
	p := open(t, urls[leader%3], "#/?group=task+estimator") // a follower's
	p.says("InvertedPendulum-v5, mc")
	p.drawn(1)
	p.look("groups")
	p.accessible()
	p.to("#/?sort=state")
	p.says("running")
	p.look("runs")
	if evaluate[bool](p, `document.body.innerText.includes('Submit')`) {
		t.Error("without credentials the pages offer to submit a sweep")
	}
	p.to("#/run/pendulum/InvertedPendulum-v5/trpo-mc-s1")
	p.drawn(8)
	p.look("run")
	p.accessible()
	p.to("#/run/pendulum/InvertedPendulum-v5/trpo-mc-s1?tab=log")
	p.says("iteration done")
	worker.Signal(syscall.SIGKILL)
	p.to("#/")
	p.says("lost") // what is dead looks dead
	p.look("lost")
	nodes[leader-1].Signal(syscall.SIGKILL)
	next := start(t, "learner", "worker", "--worker-name", "w2", "--coordinator", all, "--checkpoints", kept,
		"--actors", "1", "--lease-term", "1s")
	next.Expect(`msg="iteration done"`)
	p.says("running")
	p.to("#/run/pendulum/InvertedPendulum-v5/trpo-mc-s1?tab=events")
	p.says("epoch-2")
	p.look("events")
	p.accessible()
	p.mayComplain("503") // until there was a new leader
}

// With credentials a browser shows nothing before its user has logged in with a token, and users do what their role
// permits.
func TestActions(t *testing.T) {
	t.Parallel()
	needPackages(t)
	directory := filepath.Join(t.TempDir(), "credentials")
	command(t, "credentials", "create", "--out", directory)
	tokens := filepath.Join(t.TempDir(), "tokens")
	token := func(name, role string) string {
		fields := strings.Fields(command(t, "credentials", "token", name, "--role", role, "--file", tokens))
		return fields[len(fields)-1]
	}
	look, act := token("board", "observer"), token("alice", "operator")
	node := start(t, "coordinator", "serve", "--data-dir", t.TempDir(), "--http", "127.0.0.1:0", "--raft",
		"127.0.0.1:0", "--credentials",
		filepath.Join(directory, "coordinator"), "--tokens", tokens)
	node.Expect("msg=ready")
	p := open(t, address(node), "")
	p.says("Log in")
	p.expectComplaint("401")
	p.look("login")
	p.accessible()
	login := func(token string) {
		p.fill("input[type=password]", token)
		p.do(chromedp.Click(chromedp.CSS(`button.primary`)))
	}
	login("wrong")
	p.says("not a token of this coordinator")
	p.expectComplaint("401")
	login(look)
	p.says("observer board")
	if status := evaluate[int](p,
		`fetch('data/action', {method: 'POST', headers: {'Content-Type': 'application/json'},
			body: '{"action":"submit","sweep":""}'}).then((r) => r.status)`); status != http.StatusForbidden {
		t.Errorf("an observer's action: %d", status)
	}
	p.expectComplaint("403")
	p.do(chromedp.Click(chromedp.Search(`//button[text()='Log out']`)))
	p.says("Log in")
	p.expectComplaint("401")
	login(act)
	p.says("operator alice")
	p.says("There are no runs")
	p.accessible()
	p.to("#/submit")
	p.says("Submit a sweep")
	p.look("submit")
	p.accessible()
	p.fill("textarea", "name: bad\ntasks: Nothing-v5\n")
	p.do(chromedp.Click(chromedp.Search(`//button[text()='Check']`)))
	p.says("Nothing-v5")
	p.expectComplaint("400")
	p.fill("textarea", "name: two\ntasks: Swimmer-v5\nseeds: 1-2\n")
	p.do(chromedp.Click(chromedp.Search(`//button[text()='Check']`)))
	p.says("two is valid: 2 runs")
	p.do(chromedp.Click(chromedp.Search(`//button[text()='Submit']`)))
	p.until(`document.querySelectorAll('tbody tr').length === 2`)
	p.to("#/run/two/Swimmer-v5/trpo-mc-s1")
	confirm := func(button, confirmed, says string) {
		p.do(chromedp.Click(chromedp.Search(`//button[text()='` + button + `']`)))
		p.until(`document.querySelector('dialog').open`)
		p.accessible()
		p.do(chromedp.Click(chromedp.Search(`//dialog//button[text()='` + confirmed + `']`)))
		p.says(says)
	}
	p.says("queued")
	confirm("Cancel", "Cancel the run", "1 run is cancelled")
	p.says("Retry")
	p.look("cancelled")
	confirm("Retry", "Queue the run", "1 run is queued again")
	confirm("Remove experiment", "Remove the experiment", "cancel the experiment first") // they have not ended
	p.expectComplaint("400")
	command(t, "cancel", "two", "--coordinator", strings.TrimSuffix(p.url, "/"), "--credentials",
		filepath.Join(directory, "operator"))
	confirm("Remove experiment", "Remove the experiment", "There are no runs")
	node.Expect(`msg=changed by="operator alice" method=POST what=".*submit`)
}

// Pages of other sites, and names that somebody may have pointed here, get nothing.
func TestStrangers(t *testing.T) {
	t.Parallel()
	url := address(start(t, "learner", "dashboard", published, "--http", "127.0.0.1:0"))
	ask := func(method, path, header, value string) int {
		request, err := http.NewRequestWithContext(processtest.Context(t), method, url+path, strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		if header == "Host" {
			request.Host = value
		} else if header != "" {
			request.Header.Set(header, value)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if policy := response.Header.Get("Content-Security-Policy"); response.StatusCode == http.StatusOK &&
			(!strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe")) {
			t.Errorf("%s: policy %q", path, policy)
		}
		return response.StatusCode
	}
	for _, c := range []struct {
		method, path, header, value string
		want                        int
	}{
		{"GET", "", "", "", 200}, {"GET", "data/runs", "", "", 200}, {"GET", "assets/app.js", "", "", 200},
		{"GET", "data/runs", "Host", "evil.example", 403},
		{"POST", "data/action", "Sec-Fetch-Site", "cross-site", 403},
		{"POST", "data/action", "Origin", "http://evil.example", 403},
		{"POST", "data/action", "Content-Type", "text/plain", 403}, {"POST", "data/action", "", "", 404},
		{"POST", "data/runs", "", "", 405},
		{"GET", "data/file?name=npg-mc-s1&file=../npg-mc-s2/config.yaml", "", "", 404},
		{"GET", "data/file?name=npg-mc-s1&file=/etc/passwd", "", "", 404},
		{"GET", "data/curves?q=a%3C", "", "", 400}, {"GET", "assets/../web.go", "", "", 404},
	} {
		if got := ask(c.method, c.path, c.header, c.value); got != c.want {
			t.Errorf("%s %s with %s %s: %d, want %d", c.method, c.path, c.header, c.value, got, c.want)
		}
	}
}
