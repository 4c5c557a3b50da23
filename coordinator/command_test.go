package main_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dbqpg/dbqpg/coordinator/registry"
	"github.com/dbqpg/dbqpg/internal/credentials"
	"github.com/dbqpg/dbqpg/proto"
)

// serveOne starts a node that is alone.
func serveOne(t testing.TB, arguments ...string) *node {
	t.Helper()
	addresses := holdAddresses(t, 2)
	n := serve(t, "n1", t.TempDir(), addresses[0], addresses[1], arguments...)
	n.Expect("msg=ready")
	return n
}

// newCredentials makes credentials of all roles, with the program.
func newCredentials(t testing.TB) (directory string) {
	t.Helper()
	directory = filepath.Join(t.TempDir(), "credentials")
	if out, complaint, status := run(t, "", "", "credentials", "create", "--out", directory); status != 0 {
		t.Fatal(out, complaint)
	}
	return directory
}

const sweepFile = `name: swimmer
tasks: Swimmer-v2
estimators: [mc, uapg]
overrides: {iterations: 30}
`

// times are what differs from one day to the next.
var times = regexp.MustCompile(`\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \+0000`)

// What the commands write, in the order in which somebody would give them.
func TestCommands(t *testing.T) {
	t.Parallel()
	n := serveOne(t)
	sweep := filepath.Join(t.TempDir(), "sweep.yaml")
	if err := os.WriteFile(sweep, []byte(sweepFile), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		line string
		want string // output, or with "error: " the complaint, of which it is a part
	}{
		{"list", "EXPERIMENT  RUNS  QUEUED  RUNNING  PAUSED  DONE  FAILED  CANCELLED  SUBMITTED\n"},
		{"submit SWEEP --dry-run --coordinator http://127.0.0.1:1",
			"RUN                             SETTINGS\nswimmer/Swimmer-v2/npg-mc-s1    iterations=30\n" +
				"swimmer/Swimmer-v2/npg-uapg-s1  iterations=30\n"},
		{"show swimmer", "error: there are no experiments yet"},
		{"submit SWEEP", "swimmer: 2 runs are queued\n"},
		{"submit SWEEP", "error: there is an experiment called swimmer"},
		{"submit SWEEP --if-new", "swimmer is there already\n"},
		{"submit nothing.yaml", "error: no such file"},
		{"list", "EXPERIMENT  RUNS  QUEUED  RUNNING  PAUSED  DONE  FAILED  CANCELLED  SUBMITTED\n" +
			"swimmer     2     2       0        0       0     0       0          TIME\n"},
		{"list swimmer", "" +
			"RUN                             STATE   ITERATION  STEPS  RETURN  BEST  ETA  LEARNER  EPOCH  UPDATED\n" +
			"swimmer/Swimmer-v2/npg-mc-s1    queued  0/30       0      -       -     -             0      TIME\n" +
			"swimmer/Swimmer-v2/npg-uapg-s1  queued  0/30       0      -       -     -             0      TIME\n"},
		{"list swimer", `error: did you mean swimmer?`},
		{"cancel swimmer/Swimmer-v2/npg-mc-s1", "swimmer/Swimmer-v2/npg-mc-s1 is cancelled\n"},
		{"cancel swimmer/Swimmer-v2/npg-mc-s1", "error: swimmer/Swimmer-v2/npg-mc-s1 is over"},
		{"cancel swimmer/Swimmer-v2/npg-mc-s2", "error: did you mean swimmer/Swimmer-v2/npg-mc-s1?"},
		{"show swimmer/Swimmer-v2/npg-mc-s1",
			"run         swimmer/Swimmer-v2/npg-mc-s1\nstate       cancelled\ntask        Swimmer-v2\n" +
				"algorithm   npg\nestimator   mc\n" +
				"seed        1\niterations  30\nepoch       0\niteration   0/30\nsteps       0\nupdated     TIME\n"},
		{"list --state cancelled --sort name --limit 1",
			"RUN                           STATE      ITERATION  STEPS  RETURN  BEST  ETA  LEARNER  EPOCH  UPDATED\n" +
				"swimmer/Swimmer-v2/npg-mc-s1  cancelled  0/30       0      -       -     -             0      TIME\n"},
		{"list swimmer --state runs",
			"error: --state runs: a run is queued, running, lost, paused, done, failed or cancelled"},
		{"list swimmer --sort size", "error: runs are sorted by best, eta, iteration, name, return or updated"},
		{"list --tag paper", "EXPERIMENT  RUNS  QUEUED  RUNNING  PAUSED  DONE  FAILED  CANCELLED  SUBMITTED\n"},
		{"pause swimmer", "swimmer: 1 runs are paused\n"},
		{"resume swimmer/Swimmer-v2/npg-uapg-s1", "swimmer/Swimmer-v2/npg-uapg-s1 is queued again\n"},
		{"extend swimmer 40", "swimmer: 2 runs are extended\n"},
		{"extend swimmer/Swimmer-v2/npg-mc-s1 50", "swimmer/Swimmer-v2/npg-mc-s1 is extended\n"},
		{"show swimmer", "experiment  swimmer\nsubmitted   TIME\ntasks       Swimmer-v2\nalgorithms  npg\n" +
			"estimators  mc, uapg\nseeds       1\niterations  50 | 40\n" +
			"queued      1\nrunning     0\npaused      0\ndone        0\nfailed      0\ncancelled   1\n"},
		{"extend swimmer many", `error: "many" is not a number of iterations or steps`},
		{"extend swimmer 2000000 --steps", "swimmer: 2 runs are extended\n"},
		{"list swimmer --state cancelled", "" +
			"RUN                           STATE      ITERATION  STEPS      RETURN  BEST  ETA  LEARNER  " +
			"EPOCH  UPDATED\n" +
			"swimmer/Swimmer-v2/npg-mc-s1  cancelled  0          0/2000000  -       -     -             0      TIME\n"},
		{"prioritize swimmer 5", "swimmer: 2 runs are of priority 5\n"},
		{"drain gpu7", "error: there is no learner called gpu7"},
		{"metrics swimmer/Swimmer-v2/npg-mc-s1", "error: is cancelled, and has no iteration yet"},
		{"__complete show swimmer/", "swimmer\nswimmer/Swimmer-v2/npg-mc-s1\nswimmer/Swimmer-v2/npg-uapg-s1\n:4\n"},
		{"remove swimmer", "error: cancel the experiment first"},
		{"remove swimmer/Swimmer-v2/npg-mc-s1",
			"error: is a run, and only whole experiments are removed: coordinator remove swimmer"},
		{"cancel swimmer", "swimmer: 1 runs are cancelled\n"},
		{"retry swimmer", "swimmer: 2 runs are queued again\n"},
		{"cancel swimmer", "swimmer: 2 runs are cancelled\n"},
		{"remove swimmer", "swimmer: 2 runs are removed\n"},
		{"nodes", "NODE  ROLE    URL                     RAFT\nn1    leader  " + n.url + "  " + n.raft + "\n"},
		{"leave n9", "error: there is no node called n9"},
		{"subimt x", "error: did you mean submit?"},
		{"list --timeout 5", "error: --timeout 5: must be a duration such as 30s or 5m"},
		{"list --jsn", "error: did you mean --json?"},
		{"show", "error: usage: coordinator show NAME"},
		{"list --coordinator ftp://x", "error: is not a coordinator's URL"},
		{"list --coordinator http://127.0.0.1:1 --timeout 1h", "error: nothing listens at http://127.0.0.1:1"},
	} {
		out, complaint, status := run(t, n.url, "", strings.Fields(strings.ReplaceAll(c.line, "SWEEP", sweep))...)
		want, fails := strings.CutPrefix(c.want, "error: ")
		if fails {
			if status != 1 && status != 2 || !strings.Contains(complaint, want) || strings.Count(complaint, "\n") != 1 || out != "" {
				t.Errorf("%s: status %d, %q, complaint %q; want %q", c.line, status, out, complaint, want)
			}
			continue
		}
		if out = times.ReplaceAllString(out, "TIME"); c.line == "nodes" { // widths follow the ports
			out, want = strings.Join(strings.Fields(out), " "), strings.Join(strings.Fields(want), " ")
		}
		if strings.HasPrefix(c.line, "__complete") { // for shells, which don't show what it says on the side
			complaint = ""
		}
		if status != 0 || out != want || complaint != "" {
			t.Errorf("%s: status %d, complaint %q\n%s\nwant\n%s", c.line, status, complaint, out, want)
		}
	}
}

// With --json every command writes JSON, and submit reads a sweep from the standard input.
func TestJSON(t *testing.T) {
	t.Parallel()
	n := serveOne(t)
	backup := filepath.Join(t.TempDir(), "backup")
	for _, line := range []string{
		"submit -", "list", "list swimmer", "show swimmer", "show swimmer/Swimmer-v2/npg-mc-s1", "cancel swimmer",
		"retry swimmer",
		"cancel swimmer/Swimmer-v2/npg-mc-s1", "cancel swimmer", "nodes", "backup " + backup, "remove swimmer",
	} {
		out, complaint, status := run(t, n.url, sweepFile, append(strings.Fields(line), "--json")...)
		if status != 0 || !json.Valid([]byte(out)) {
			t.Errorf("%s: status %d, %s\n%s", line, status, complaint, out)
		}
	}
	file, err := os.Open(backup)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if s, err := registry.Decode(file); err != nil || s.Experiment("swimmer") == nil {
		t.Errorf("the backup: %v", err)
	}
}

// A node says what is wrong with its settings.
func TestBadSettings(t *testing.T) {
	t.Parallel()
	n := serveOne(t)
	for line, want := range map[string]string{
		"serve": "--data-dir",
		"serve --data-dir x --peers n1=a:1 --join http://h": "not both",
		"serve --data-dir x --join h":                       "must be a URL",
		"serve --data-dir x --http 0.0.0.0:7070":            "can be reached from other machines",
		"serve --data-dir x --raft example.org:7071":        "can be reached from other machines",
		"serve --data-dir x --http nonsense":                "must be host:port",
		"serve --data-dir x --peers n1=a:1,n2=b:2":          "use 1, 3 or 5",
		"serve --data-dir x --node-id n9 --peers n1=a:1":    "not among the peers",
		"serve --data-dir x --credentials nowhere":          "--credentials",

		"serve --data-dir x --log-level loud": `--log-level "loud": must be debug, info, warn or error`,
		"serve --data-dir x --log-format xml": `--log-format "xml": must be text or json`,

		"serve --data-dir x --http " + strings.TrimPrefix(n.url, "http://"):  "address already in use",
		"serve --data-dir /dev/null/x --http 127.0.0.1:0 --raft 127.0.0.1:0": "create the data directory",
	} {
		if out, complaint, status := run(t, "", "", strings.Fields(line)...); status != 1 ||
			!strings.Contains(complaint, want) || out != "" {
			t.Errorf("%s: status %d, %q, %q, want %q", line, status, out, complaint, want)
		}
	}
}

// With --log-format json a node, raft included, logs JSON lines, from the given level on.
func TestLogOptions(t *testing.T) {
	t.Parallel()
	serve := func(more ...string) *node {
		addresses := holdAddresses(t, 2)
		return serve(t, "n1", t.TempDir(), addresses[0], addresses[1], more...)
	}
	verbose := serve("--log-format", "json", "--log-level", "debug")
	verbose.Expect(`"msg":"ready"`)
	levels := map[string]bool{}
	for line := range strings.Lines(verbose.Log()) {
		var entry struct{ Time, Level, Msg string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.Time == "" || entry.Msg == "" {
			t.Errorf("%q: %v", line, err)
		}
		levels[entry.Level] = true
	}
	if !levels["DEBUG"] || !levels["INFO"] {
		t.Errorf("there are lines of %v", levels)
	}
	quiet := serve("--log-level", "error")
	c := newClient(t, quiet.url)
	if _, err := c.Submit(deadline(t), spec("x", 1)); err != nil { // it is ready, and has not said so
		t.Fatal(err)
	}
	if status := quiet.stop(); status != 0 || quiet.Log() != "" {
		t.Errorf("status %d, log:\n%s", status, quiet.Log())
	}
}

// With credentials, three nodes and their clients know each other, and nobody else gets in.
func TestCredentials(t *testing.T) {
	t.Parallel()
	directory := newCredentials(t)
	addresses := holdAddresses(t, 2)
	n := serve(t, "n1", t.TempDir(), addresses[0], addresses[1], "--credentials",
		filepath.Join(directory, "coordinator"))
	n.Expect("msg=ready")
	url := strings.Replace(n.url, "http", "https", 1)
	second := holdAddresses(t, 2)
	serve(t, "n2", t.TempDir(), second[0], second[1], "--credentials", filepath.Join(directory, "coordinator"),
		"--join", url).Expect("msg=ready")
	as := func(role string, arguments ...string) (string, int) {
		out, complaint, status := run(t, url, sweepFile,
			append(arguments, "--credentials", filepath.Join(directory, role), "--timeout", "5s")...)
		return out + complaint, status
	}
	if out, status := as("operator", "submit", "-"); status != 0 {
		t.Error(out)
	}
	if out, status := as("observer", "list", "swimmer"); status != 0 || !strings.Contains(out, "npg-uapg-s1") {
		t.Error(out)
	}
	for _, role := range []string{"observer", "learner"} {
		if out, status := as(role, "cancel", "swimmer"); status != 1 || !strings.Contains(out, "may not do that") {
			t.Errorf("%s cancels: %s", role, out)
		}
	}
	if out, status := as("actor", "list", "--timeout", "1s"); status != 1 { // it has no business here
		t.Errorf("an actor lists: %s", out)
	}
	if out, complaint, status := run(t, url, "", "list", "--timeout", "1s"); status != 1 ||
		!strings.Contains(complaint, "certificate") {
		t.Error(out, complaint)
	}
}

// Who changes something is in the log, by the certificate's name; whose certificate is revoked changes nothing any
// more, and whoever gets the name afterwards does.
func TestRevoked(t *testing.T) {
	t.Parallel()
	directory, stolen := filepath.Join(t.TempDir(), "credentials"), filepath.Join(t.TempDir(), "stolen")
	d, err := credentials.Create(directory, nil, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(stolen, os.DirFS(filepath.Join(directory, "operator"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(stolen, "tls-key.pem"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := serveOne(t, "--credentials", filepath.Join(directory, "coordinator"))
	url := strings.Replace(n.url, "http:", "https:", 1)
	with := func(credentials string, arguments ...string) (string, int) {
		out, complaint, status := run(t, url, sweepFile,
			append(arguments, "--credentials", credentials, "--timeout", "5s")...)
		return out + complaint, status
	}
	if out, status := with(stolen, "submit", "-"); status != 0 {
		t.Fatal(out)
	}
	n.Expect(`msg=changed by="operator operator" method=POST what=".*submit`)
	if err := d.Revoke("operator"); err != nil {
		t.Fatal(err)
	}
	if out, status := with(stolen, "cancel", "swimmer"); status == 0 {
		t.Errorf("a revoked operator cancels: %s", out)
	}
	if err := d.Add("operator", proto.RoleOperator, nil, time.Hour); err != nil {
		t.Fatal(err)
	}
	if out, status := with(filepath.Join(directory, "operator"), "cancel", "swimmer"); status != 0 {
		t.Errorf("the new operator does not cancel: %s", out)
	}
}

// A node that advertises a URL for which its certificate is not says so, and is not ready.
func TestMisnamed(t *testing.T) {
	t.Parallel()
	addresses := holdAddresses(t, 2)
	_, port, _ := strings.Cut(addresses[0], ":")
	n := serve(t, "n1", t.TempDir(), "127.0.0.2:"+port, addresses[1], "--credentials",
		filepath.Join(newCredentials(t), "coordinator"))
	n.Expect(`cannot announce its URL yet.*certificate is valid for .*not 127.0.0.2`)
	if log := n.Log(); strings.Contains(log, "msg=ready") {
		t.Error(log)
	}
}

// A token stands for a certificate, for as long as its line is in the file.
func TestTokens(t *testing.T) {
	t.Parallel()
	directory, tokens := newCredentials(t), filepath.Join(t.TempDir(), "tokens")
	token, complaint, status := run(t, "", "", "credentials", "token", "ci", "--file", tokens)
	if status != 0 {
		t.Fatal(complaint)
	}
	if _, complaint, status := run(t, "", "", "credentials", "token", "gpu", "--role", "learner", "--file",
		tokens); status != 1 || !strings.Contains(complaint, "learners have certificates") {
		t.Error(complaint)
	}
	addresses := holdAddresses(t, 2)
	serve(t, "n1", t.TempDir(), addresses[0], addresses[1], "--credentials", filepath.Join(directory, "coordinator"),
		"--tokens", tokens).Expect("msg=ready")
	authority, err := os.ReadFile(filepath.Join(directory, "operator", "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	ask := func(method, path, token, body string, want int) {
		t.Helper()
		request, err := http.NewRequestWithContext(deadline(t), method, "https://"+addresses[0]+path,
			strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if answer, _ := io.ReadAll(response.Body); response.StatusCode != want {
			t.Errorf("%s %s with token %q: %d %s, want %d", method, path, token, response.StatusCode, answer, want)
		}
	}
	token = strings.TrimSpace(token)
	ask("GET", "/v1/runs", token, "", 200)
	ask("GET", "/v1/runs", "", "", 403)
	ask("GET", "/v1/runs", token+"x", "", 403)
	ask("POST", "/v1/commands", token, `{"steer":{"name":"x","action":"cancel"}}`, 403)
	held, ca, url := filepath.Join(t.TempDir(), "token"), filepath.Join(directory, "operator", "ca.pem"),
		"https://"+addresses[0]
	if err := os.WriteFile(held, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	command := func(url, line, want string) {
		t.Helper()
		if out, complaint, _ := run(t, url, "",
			append(strings.Fields(line), "--timeout", "5s")...); !strings.Contains(out+complaint, want) {
			t.Errorf("%s: %s%s, want %q", line, out, complaint, want)
		}
	}
	command(url, "list --token-file "+held+" --ca "+ca, "EXPERIMENT  RUNS")
	command(url, "cancel x --token-file "+held+" --ca "+ca, "may not do that")
	command(url, "list --token-file "+held, "give --ca too")
	command(url, "list --token-file "+held+" --ca "+ca+" --credentials "+directory, "mutually exclusive")
	command("http://"+addresses[0], "list --token-file "+held+" --ca "+ca, "in the open")
	if err := os.WriteFile(tokens, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ask("GET", "/v1/runs", token, "", 403)
}

// Metrics count requests under the names of their routes, and runs by state.
func TestMetrics(t *testing.T) {
	t.Parallel()
	address := holdAddresses(t, 1)[0]
	n := serveOne(t, "--metrics-listen", address)
	for _, line := range []string{"submit -", "show swimmer/Swimmer-v2/npg-mc-s1",
		"cancel swimmer/Swimmer-v2/npg-mc-s1"} {
		if out, complaint, status := run(t, n.url, sweepFile, strings.Fields(line)...); status != 0 {
			t.Fatal(out, complaint)
		}
	}
	response, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"dbqpg_coordinator_leader 1\n", `dbqpg_coordinator_runs{state="queued"} 1`,
		`dbqpg_coordinator_runs{state="cancelled"} 1`,
		`dbqpg_coordinator_request_seconds_count{code="200",route="GET /v1/runs/{name...}"} 1`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
}
