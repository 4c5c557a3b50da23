package helm

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/dbqpg/dbqpg/internal/config"
	"github.com/dbqpg/dbqpg/sim"
)

var update = flag.Bool("update", false,
	"write the golden manifests, the schemas of Kubernetes, the operators' definitions and the chart's README.md again")

// Helm's linter finds nothing, with any values.
func TestLint(t *testing.T) {
	for name, values := range valueSets(t) {
		result := lint.AllWithKubeVersion(chartDirectory, values, namespace,
			&chartutil.KubeVersion{Version: "v1.34.1", Major: "1", Minor: "34"})
		for _, message := range result.Messages {
			if message.Severity > support.InfoSev {
				t.Errorf("%s: %v", name, message)
			}
		}
	}
}

// What is wrong with values is said before anything is installed, by name.
func TestValuesRefused(t *testing.T) {
	for _, test := range []struct{ values, message string }{
		{"learners: {}", `additional properties 'learners' not allowed`},
		{"learner: {replica: 2}", `at '/learner': additional properties 'replica' not allowed`},
		{"actors: {pools: {spot: {slot: 2}}}", `at '/actors/pools/spot': additional properties 'slot' not allowed`},
		{"actors: {pools: {spot: {tolerations: [{effects: NoSchedule}]}}}",
			`additional properties 'effects' not allowed`},
		{"actors: {pools: {Spot: {slots: 2}}}", `at '/actors/pools': additional properties 'Spot' not allowed`},
		{"run: {env: Hoper-v5}", `at '/run/env': value must be one of`},
		{"run: {env: Hopper-v5, settings: {env: Hopper-v5}}", `at '/run/settings': additional properties 'env' not`},
		{"run: {env: Hopper-v5}\nexperiments: [{name: x, tasks: Hopper-v5}]", `experiments: of a coordinator`},
		{"run: {env: Hopper-v5}\nnats: {external: 'tls://h:4222'}", `nats.external: of a coordinator`},
		{"run: {env: Hopper-v5}\ncheckpoints: {store: s3, s3: {url: 's3://b'}}", `checkpoints.store: a run of its own`},
		{"coordinator: {join: true}", `at '/coordinator': additional properties 'join' not allowed`},
		{"natschart: {enabled: true}", `additional properties 'natschart' not allowed`},
		{"commonLabels: {app.kubernetes.io/name: x}", `at '/commonLabels/app.kubernetes.io~1name'`},
		{"actors: {pools: {spot: {podLabels: {dbqpg.io/pool: x}}}}", `at '/actors/pools/spot/podLabels/dbqpg.io~1pool'`},
		{"learner: {leaseTerm: 0s}", `at '/learner/leaseTerm': '0s' does not match pattern`},
		{"fullnameOverride: a.b", `at '/fullnameOverride': 'a.b' does not match pattern`},
		{"nameOverride: A", `at '/nameOverride': 'A' does not match pattern`},
		{"credentials: {secretPrefix: a_b}", `at '/credentials/secretPrefix': 'a_b' does not match pattern`},
		{"credentials: {days: 30}", `credentials.renewBeforeDays: 30 days before the end`},
		{"nats: {resources: {limits: null}}", `nats.resources.limits.memory: give a limit`},
		{"nats: {memory: 2GB}", `nats.memory: 2GB exceeds nine tenths of nats.resources.limits.memory, 1Gi`},
		{"experiments: [{name: x, tasks: Hopper-v5}, {name: x, tasks: Hopper-v5}]", `experiments[1].name: an earlier`},
		{"experiments: [{name: x, tasks: [Hoper-v5]}]", `at '/experiments/0/tasks/0': value must be one of`},
		{"experiments: [{name: x, tasks: Hopper-v5, overrides: {gae_lamda: 1}}]", `at '/experiments/0/overrides': additional properties 'gae_lamda' not`},
		{"experiments: [{name: x, tasks: Hopper-v5, overrides: {seed: 1}}]", `at '/experiments/0/overrides/seed'`},
		{"coordinator: {replicas: 2}", `at '/coordinator/replicas': value must be one of 1, 3, 5`},
		// of different programs
		{"common: {extraArgs: [--log-level=debug]}", `at '/common': additional properties 'extraArgs' not allowed`},
		{"learner: {device: gpu}", `at '/learner/device': value must be one of 'cuda', 'cpu'`},
		{"learner: {replicas: many}", `at '/learner/replicas': got string, want`},
		{"learner: {resources: {limits: {memory: 8 gigabytes}}}",
			`at '/learner/resources/limits/memory': '8 gigabytes' does not match pattern`},
		{"nats: {external: 'nats://user:secret@host:4222'}", `at '/nats/external'`},
		{"checkpoints: {store: s3}", `at '/checkpoints/s3/url': minLength: got 0, want 1`},
		{"experiments: [{name: x, tasks: Hopper-v5, task: Swimmer-v2}]",
			`at '/experiments/0': additional properties 'task' not allowed`},
		{"experiments: [{name: x}]", `at '/experiments/0': missing property 'tasks'`},
		{"coordinator: {image: {digest: latest}}", `at '/coordinator/image/digest': 'latest' does not match pattern`},
		{"dashboard: {ingress: {enabled: true, host: x.example}}",
			`browsers have no certificate: set coordinator.tokensSecret`},
		{"dashboard: {player: {enabled: true}}", `dashboard.player.enabled: it reads the workers' checkpoints`},
		{"learner: {autoscaling: {enabled: true}}", `learner.replicas: 4 workers share their checkpoints`},
		{"credentials: {mode: cert-manager}", `credentials.issuer.name: name the cert-manager issuer`},
		{"actors: {pools: {spot: {autoscaling: {type: keda, min: 20}}}}",
			`actors.pools.spot.autoscaling: min, 20, exceeds max, 16`},
		{"learner: {replicas: " +
			"3}",
			`learner.replicas: 3 workers share their checkpoints: set checkpoints.volume.accessMode to ReadWriteMany`},
	} {
		_, err := tryRender(loadChart(t), parse(t, test.values))
		if err == nil || !strings.Contains(err.Error(), test.message) {
			t.Errorf("%s: %v; want %q", test.values, err, test.message)
		}
	}
}

// Each object in the schema says which keys it has, but for the few that hold names or Kubernetes' own words.
func TestSchemaIsClosed(t *testing.T) {
	var schema map[string]any
	if err := json.Unmarshal([]byte(mustRead(t, filepath.Join(chartDirectory, "values.schema.json"))),
		&schema); err != nil {
		t.Fatal(err)
	}
	open := regexp.MustCompile(`^/properties/global$|/kubernetesList/items$|` +
		`/(nodeAffinity|podAffinity|podAntiAffinity|podSelector|namespaceSelector|ipBlock)$|` +
		`/(podSecurityContext|securityContext)$`)
	walkSchema(schema, "", func(path string, object map[string]any) {
		kind, _ := object["type"].(string)
		if _, closed := object["additionalProperties"]; kind == "object" && !closed && !open.MatchString(path) {
			t.Errorf("%s takes any key", path)
		}
	})
}

// The schema has the tasks and settings that the programs have.
func TestSchemaNames(t *testing.T) {
	var schema struct {
		Defs struct {
			Task     struct{ Enum []string }
			Settings struct{ PatternProperties map[string]any }
		} `json:"$defs"`
	}
	if err := json.Unmarshal([]byte(mustRead(t, filepath.Join(chartDirectory, "values.schema.json"))),
		&schema); err != nil {
		t.Fatal(err)
	}
	var tasks []string
	for _, task := range sim.Tasks() {
		tasks = append(tasks, task.Name)
	}
	settings, _ := config.Overrides()
	settings = slices.DeleteFunc(settings, func(name string) bool { return name == "env" || name == "task" })
	if got := schema.Defs.Task.Enum; !slices.Equal(got, tasks) {
		t.Errorf("$defs/task has %q, want %q", got, tasks)
	}
	if want := "^(" + strings.Join(settings, "|") + ")$"; schema.Defs.Settings.PatternProperties[want] == nil {
		t.Errorf("$defs/settings has %v, want %s", schema.Defs.Settings.PatternProperties, want)
	}
}

func walkSchema(node any, path string, visit func(path string, object map[string]any)) {
	switch node := node.(type) {
	case map[string]any:
		visit(path, node)
		for key, value := range node {
			walkSchema(value, path+"/"+key, visit)
		}
	case []any:
		for _, value := range node {
			walkSchema(value, path, visit)
		}
	}
}

// The presets' manifests, and those of the defaults, as they are committed: a change of the chart shows what it
// changes.
func TestGolden(t *testing.T) {
	sets := presets(t)
	sets["defaults"] = nil
	for name, values := range sets {
		path := filepath.Join("testdata", "golden", name+".yaml")
		got := render(t, values).manifest
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(path)
		if err != nil || got != string(want) {
			t.Errorf("%s: the manifests are others than %s (%v); go test -run Golden -update writes "+
				"them, git diff shows the change", name, path, err)
		}
	}
}

// With cert-manager, NATS servers admit the members that have certificates by the same rules as with credentials of the
// Job.
func TestAccounts(t *testing.T) {
	t.Parallel()
	directory := filepath.Join(t.TempDir(), "credentials")
	create := exec.Command(program(t, "coordinator"), "credentials", "create", "--out", directory)
	if output, err := create.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	want, path := mustRead(t, directory+"/nats/accounts.conf"), filepath.Join(chartDirectory, "files", "accounts.conf")
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if mustRead(t, path) != want {
		t.Errorf("%s is not up to date: go test -run Accounts -update writes it", path)
	}
}

// The dashboard asks for metrics that exist.
func TestDashboard(t *testing.T) {
	reference := mustRead(t, "../docs/metrics.md")
	known := map[string]bool{}
	for _, name := range regexp.MustCompile("`(dbqpg_[a-z_]+)`").FindAllStringSubmatch(reference, -1) {
		known[name[1]] = true
	}
	dashboard := mustRead(t, filepath.Join(chartDirectory, "dashboards", "dbqpg.json"))
	if !json.Valid([]byte(dashboard)) {
		t.Fatal("the dashboard is no JSON")
	}
	asked := regexp.MustCompile(`dbqpg_[a-z_]+`).FindAllString(dashboard, -1)
	asked = append(asked, regexp.MustCompile(`dbqpg_[a-z_]+`).FindAllString(
		mustRead(t, filepath.Join(chartDirectory, "templates", "actors.yaml")), -1)...)
	if len(asked) < 10 {
		t.Fatal(asked)
	}
	for _, name := range asked {
		if base := regexp.MustCompile(`_(sum|count|bucket)$`).ReplaceAllString(name, ""); !known[name] && !known[base] {
			t.Errorf("there is no metric %s", name)
		}
	}
}

// A pool goes with null, and with nothing else: one whose number of pods is left alone, and that has no other value,
// remains.
func TestPools(t *testing.T) {
	for text, want := range map[string]int{
		"actors: {pools: {standard: null}}": 0, "actors: {pools: {standard: {replicas: null}}}": 1,
		"actors: {pools: {standard: {}, spot: {}}}": 2,
	} {
		r := render(t, parse(t, text))
		pools := 0
		for _, o := range r.ofKind("Deployment") {
			if o.GetLabels()["dbqpg.io/pool"] != "" {
				pools++
			}
		}
		if pools != want {
			t.Errorf("%s: %d pools, want %d", text, pools, want)
		}
	}
	r := render(t, parse(t, "actors: {common: {slots: 8, nodeSelector: {a: b}}, pools: {standard: {replicas: 0, "+
		"nodeSelector: {c: d}, slots: 2}, other: {}}}"))
	standard, other := podOf(t, r.find(t, "Deployment", "dbqpg-actor-standard")).Spec,
		podOf(t, r.find(t, "Deployment", "dbqpg-actor-other")).Spec
	if len(standard.NodeSelector) != 2 || len(other.NodeSelector) != 1 ||
		!slices.Contains(standard.Containers[0].Args, "--slots=2") ||
		!slices.Contains(other.Containers[0].Args, "--slots=8") {
		t.Errorf("%v %v\n%v %v", standard.NodeSelector, standard.Containers[0].Args, other.NodeSelector,
			other.Containers[0].Args)
	}
	if replicas, given, _ := unstructured.NestedInt64(r.find(t, "Deployment", "dbqpg-actor-standard").Object, "spec",
		"replicas"); replicas != 0 || !given {
		t.Error("0 pods are not what is given", replicas, given)
	}
}

// The notes hold the commands to go on with, in the release's own names.
func TestNotes(t *testing.T) {
	notes := render(t, presets(t)["kind"]).notes
	for _, part := range []string{
		"kubectl -n training port-forward service/dbqpg-coordinator 7070", "coordinator watch first",
		"scale deployment dbqpg-actor-standard", "helm uninstall keeps",
	} {
		if !strings.Contains(notes, part) {
			t.Errorf("no %q in\n%s", part, notes)
		}
	}
	run := render(t, valueSets(t)["run"]).notes
	for _, part := range []string{"Humanoid-v5", "logs -f job/dbqpg-learner", `"claimName":"dbqpg-checkpoints"`} {
		if !strings.Contains(run, part) {
			t.Errorf("no %q in\n%s", part, run)
		}
	}
	existing := render(t, parse(t, "credentials: {mode: existing}\nactors: {pools: {standard: null}}\ncheckpoints: "+
		"{store: s3, s3: {url: 's3://runs'}}")).notes
	for _, part := range []string{"Secrets dbqpg-credentials-ROLE", "no actors", "They are in s3://runs"} {
		if !strings.Contains(existing, part) {
			t.Errorf("no %q in\n%s", part, existing)
		}
	}
	if strings.Contains(existing, "scale deployment") {
		t.Error(existing)
	}
}
