package helm

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/release"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

const (
	chartDirectory = "../charts/dbqpg"
	releaseName    = "dbqpg"
	namespace      = "training"
)

func loadChart(t testing.TB) *chart.Chart {
	t.Helper()
	c, err := loader.Load(chartDirectory)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// rendering is what an installation would make.
type rendering struct {
	manifest string // hooks included
	notes    string
	objects  []*unstructured.Unstructured
}

// render renders the chart as `helm install --dry-run` does for a cluster of that version.
func render(t testing.TB, values map[string]any) *rendering {
	t.Helper()
	r, err := tryRender(loadChart(t), values)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func tryRender(c *chart.Chart, values map[string]any) (*rendering, error) {
	return renderAs(c, releaseName, values)
}

// renderAs renders a release for a cluster that has further APIs.
func renderAs(c *chart.Chart, release string, values map[string]any, apis ...string) (*rendering, error) {
	install := action.NewInstall(new(action.Configuration))
	install.DryRun, install.ClientOnly, install.Replace = true, true, true
	install.APIVersions = apis
	install.ReleaseName, install.Namespace = release, namespace
	install.KubeVersion = &chartutil.KubeVersion{Version: "v1.34.1", Major: "1", Minor: "34"}
	made, err := install.Run(c, values)
	if err != nil {
		return nil, err
	}
	r := &rendering{manifest: withHooks(made), notes: made.Info.Notes}
	r.objects, err = decode(r.manifest)
	return r, err
}

// withHooks returns a release's manifest with those of its hooks.
func withHooks(made *release.Release) string {
	var all bytes.Buffer
	all.WriteString(made.Manifest)
	for _, hook := range made.Hooks {
		fmt.Fprintf(&all, "---\n# Source: %s\n%s\n", hook.Path, hook.Manifest)
	}
	return all.String()
}

func decode(manifest string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(manifest)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		data, err := yaml.YAMLToJSONStrict(document)
		if err != nil {
			return nil, fmt.Errorf("%w in\n%s", err, document)
		}
		if string(data) == "null" {
			continue
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(data); err != nil {
			return nil, fmt.Errorf("%w in\n%s", err, document)
		}
		objects = append(objects, object)
	}
}

// find returns an object, or ends the test.
func (r *rendering) find(t testing.TB, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for _, o := range r.objects {
		if o.GetKind() == kind && o.GetName() == name {
			return o
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
	return nil
}

// ofKind returns the objects of a kind.
func (r *rendering) ofKind(kind string) (found []*unstructured.Unstructured) {
	for _, o := range r.objects {
		if o.GetKind() == kind {
			found = append(found, o)
		}
	}
	return found
}

// valuesFile reads a preset.
func valuesFile(t testing.TB, path string) map[string]any {
	t.Helper()
	values, err := chartutil.ReadValuesFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// parse reads values written as YAML.
func parse(t testing.TB, text string) map[string]any {
	t.Helper()
	values := map[string]any{}
	if err := yaml.UnmarshalStrict([]byte(text), &values); err != nil {
		t.Fatal(err)
	}
	return values
}

// presets returns the chart's values files, by name.
func presets(t testing.TB) map[string]map[string]any {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(chartDirectory, "presets", "*.yaml"))
	if err != nil || len(paths) < 5 {
		t.Fatal(paths, err)
	}
	all := map[string]map[string]any{}
	for _, path := range paths {
		all[strings.TrimSuffix(filepath.Base(path), ".yaml")] = valuesFile(t, path)
	}
	return all
}

// valueSets returns all values that the tests render: the defaults, the presets, and one for each thing that can be
// chosen.
func valueSets(t testing.TB) map[string]map[string]any {
	t.Helper()
	sets := presets(t)
	for name, text := range map[string]string{
		"defaults": "",
		"s3": `
checkpoints:
  store: s3
  s3: {url: "s3://runs/prefix", endpoint: "https://minio.minio.svc:9000", region: eu-1, existingSecret: keys}
learner: {replicas: 3}`,
		"shared-volume": `
checkpoints: {volume: {accessMode: ReadWriteMany, storageClassName: nfs}}
learner:
  {replicas: 4, runtimeClassName: nvidia, gpuResource: nvidia.com/mig-1g.10gb,
   extraArgs: ["--lease-term=20s", "--log-level=debug"]}`,
		"existing-claim": "checkpoints: {volume: {existingClaim: mine}}\nkeepVolumes: false",
		"cert-manager": "credentials: {mode: cert-manager, secretPrefix: nkeys, issuer: {name: dbqpg, kind: " +
			"ClusterIssuer}, hosts: [dbqpg.example]}",
		"autoscaling": `
actors:
  pools:
    standard: {replicas: null, autoscaling: {type: cpu, max: 32}}
    useful: {slots: 8, run: "Humanoid-v2/*", autoscaling: {type: keda, min: 0, max: 20, fraction: 0.5}}
learner: {autoscaling: {enabled: true, max: 8}}
checkpoints: {volume: {accessMode: ReadWriteMany}}
keda: {authenticationRef: {name: prometheus, kind: ClusterTriggerAuthentication}}`,
		"monitoring": `
metrics:
  serviceMonitor: {enabled: true, labels: {release: prometheus}}
  dashboard: {enabled: true}
  rules: {enabled: true, labels: {release: prometheus}}
nats: {exporter: {enabled: true}}
tracing: {endpoint: "http://otel-collector.monitoring.svc:4318"}
common: {image: {tag: v9, pullPolicy: Always}}
global: {imageRegistry: registry.example}
imagePullSecrets: [{name: pull}]`,
		"five-nodes": `
coordinator: {replicas: 5, nodeSelector: {disk: ssd}, storage: {storageClassName: fast}}
nats:
  replicas: 5
  affinity:
    nodeAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: Exists}]}]
networkPolicy:
  natsFrom: [{ipBlock: {cidr: 192.0.2.0/24}}]
  coordinatorFrom: [{namespaceSelector: {matchLabels: {a: b}}}]
  metricsFrom: []
serviceAccount: {annotations: {eks.amazonaws.com/role-arn: "arn:aws:iam::1:role/dbqpg"}}`,
		"run": "run: {env: Humanoid-v5, settings: {hidden: [64, 64], iterations: 2000000}, queue: q, schedulerName: s, " +
			"activeDeadlineSeconds: 60}\nmetrics: {serviceMonitor: {enabled: true}}",
		"no-policies": "networkPolicy: {enabled: false}",
		"dashboard": "coordinator: {tokensSecret: tokens}\ndashboard: {ingress: {enabled: true, className: " +
			"nginx, host: dbqpg.example, tlsSecret: dbqpg-example}}\ncheckpoints: {store: s3, s3: {url: " +
			"'s3://runs', existingSecret: keys}}",
		"dashboard-volume": "coordinator: {tokensSecret: tokens}\ndashboard: {service: {enabled: true}, player: " +
			"{enabled: true}}\ncheckpoints: {volume: {accessMode: ReadWriteMany}}",
		"player": "dashboard: {player: {enabled: true, nodeSelector: {disk: ssd}}}\ncheckpoints: {store: " +
			"s3, s3: {url: 's3://runs', existingSecret: keys, readOnlySecret: reading}}",
		"names": "fullnameOverride: dbqpg\nserviceAccount: {create: false, name: " +
			"trainer}\ncommonLabels: {team: control}\ncommon: {labels: {team: a}, podLabels: {team: b}}\nenabled: true",
	} {
		sets[name] = parse(t, text)
	}
	return sets
}

// eachSet runs a subtest for each of valueSets, in order.
func eachSet(t *testing.T, test func(t *testing.T, name string, r *rendering)) {
	sets := valueSets(t)
	for _, name := range slices.Sorted(maps.Keys(sets)) {
		t.Run(name, func(t *testing.T) { test(t, name, render(t, sets[name])) })
	}
}

func mustRead(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
