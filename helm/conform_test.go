package helm

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/yannh/kubeconform/pkg/validator"
)

// kubernetes are the versions whose API the manifests are checked against. Their schemas are in testdata/schemas, made
// from the specification in the module k8s.io/kubernetes by go test -run Conform -update: what the kinds below need,
// without the descriptions.
var kubernetes = []string{"1.32.1", "1.33.1", "1.34.1"}

// kinds are all of Kubernetes' own that the chart makes, by the names of their definitions.
var kinds = map[string]string{
	"ConfigMap":               "io.k8s.api.core.v1.ConfigMap",
	"CronJob":                 "io.k8s.api.batch.v1.CronJob",
	"Deployment":              "io.k8s.api.apps.v1.Deployment",
	"HorizontalPodAutoscaler": "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler",
	"Ingress":                 "io.k8s.api.networking.v1.Ingress",
	"Job":                     "io.k8s.api.batch.v1.Job",
	"NetworkPolicy":           "io.k8s.api.networking.v1.NetworkPolicy",
	"PersistentVolumeClaim":   "io.k8s.api.core.v1.PersistentVolumeClaim",
	"Pod":                     "io.k8s.api.core.v1.Pod",
	"PodDisruptionBudget":     "io.k8s.api.policy.v1.PodDisruptionBudget",
	"Role":                    "io.k8s.api.rbac.v1.Role",
	"RoleBinding":             "io.k8s.api.rbac.v1.RoleBinding",
	"Service":                 "io.k8s.api.core.v1.Service",
	"ServiceAccount":          "io.k8s.api.core.v1.ServiceAccount",
	"StatefulSet":             "io.k8s.api.apps.v1.StatefulSet",
}

// reference begins the reference to a definition.
const reference = "#/definitions/"

// Every object, with any values, is what the API of each version takes, and has no field that it does not know.
func TestConform(t *testing.T) {
	for _, version := range kubernetes {
		t.Run(version, func(t *testing.T) {
			check := newValidator(t, version)
			for name, values := range valueSets(t) {
				seen := 0
				for _, result := range check(render(t, values).manifest) {
					switch result.Status {
					case validator.Valid:
						seen++
					case validator.Empty:
					default:
						t.Errorf("%s: %v", name, result.Err)
					}
				}
				if seen < 10 {
					t.Errorf("%s: only %d objects were checked", name, seen)
				}
			}
		})
	}
}

// The check finds what is wrong, in Kubernetes' own kinds and in others: a value of another type, a field that there is
// not, one that must be there and is not, a word that is none of those allowed.
func TestConformFinds(t *testing.T) {
	check := newValidator(t, kubernetes[0])
	const service, certificate, scaled, monitor = "v1/Service", "cert-manager.io/v1/Certificate",
		"keda.sh/v1alpha1/ScaledObject", "monitoring.coreos.com/v1/ServiceMonitor"
	for _, test := range []struct {
		kind, spec string
		want       validator.Status
	}{
		{service, "ports: [{port: 80}]", validator.Valid},
		{service, "ports: [{port: https}]", validator.Invalid},
		{service, "clusterIp: None", validator.Invalid},
		{certificate, "secretName: s, issuerRef: {name: i}, usages: [client auth]", validator.Valid},
		{certificate, "secretName: s, issuerRef: {name: i}, usages: [clientauth]", validator.Invalid},
		{certificate, "secretName: s, issuerRef: {name: i}, privateKey: {rotation: Always}", validator.Invalid},
		{certificate, "secretName: s, issuerRef: {name: i}, duration: 24", validator.Invalid},
		{certificate, "issuerRef: {name: i}", validator.Invalid},
		{"cert-manager.io/v1alpha2/Certificate", "secretName: s, issuerRef: {name: i}", validator.Invalid},
		{scaled, "scaleTargetRef: {name: d}, triggers: [{type: prometheus, metadata: {threshold: '4'}}]",
			validator.Valid},
		{scaled, "scaleTargetRef: {name: d}, triggers: [{type: prometheus, metadata: {threshold: 4}}]",
			validator.Invalid},
		{scaled, "scaleTargetRef: {name: d}, triggers: [{type: prometheus, metadata: {}}], minReplicas: 0",
			validator.Invalid},
		{scaled, "triggers: [{type: prometheus, metadata: {}}]", validator.Invalid},
		{monitor, "selector: {}, endpoints: [{port: metrics, targetPort: 9464}]", validator.Valid},
		{monitor, "selector: {}, endpoints: [{port: metrics, targetPort: true}]", validator.Invalid},
		{monitor, "selector: {}, endpoints: [{port: metrics, interval: 30 seconds}]", validator.Invalid},
		{monitor, "selector: {matchLabel: {a: b}}, endpoints: [{port: metrics}]", validator.Invalid},
		{monitor, "selector: {}", validator.Invalid},
	} {
		version, kind := path.Split(test.kind)
		manifest := fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: x}\nspec: {%s}\n",
			strings.TrimSuffix(version, "/"), kind, test.spec)
		if results := check(manifest); len(results) != 1 || results[0].Status != test.want {
			t.Errorf("%s %s: %v", test.kind, test.spec, results)
		}
	}
	metadata := "apiVersion: v1\nkind: Service\nmetadata: {name: x, label: {}}\n"
	for _, kind := range []string{service, monitor} {
		if results := check(strings.NewReplacer("v1", path.Dir(kind), "Service",
			path.Base(kind)).Replace(metadata)); results[0].Status != validator.Invalid {
			t.Errorf("%s: a field of the metadata that there is not: %v", kind, results)
		}
	}
}

func newValidator(t testing.TB, version string) func(manifest string) []validator.Result {
	t.Helper()
	schemas := map[string]map[string]any{} // by kind
	for kind, definition := range definitions {
		if *update {
			definition.write(t)
		}
		schemas[kind] = definition.schema(t)
	}
	file := filepath.Join("testdata", "schemas", "v"+version+".json")
	if *update {
		writeSchemas(t, version, file)
	}
	var types map[string]any
	if err := json.Unmarshal([]byte(mustRead(t, file)), &types); err != nil {
		t.Fatal(err)
	}
	for kind, name := range kinds {
		schemas[kind] = map[string]any{"$ref": reference + name}
	}
	directory := t.TempDir()
	for kind, schema := range schemas {
		schema["definitions"] = types
		data, err := json.Marshal(schema)
		if err == nil {
			err = os.WriteFile(filepath.Join(directory, strings.ToLower(kind)+".json"), data, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	v, err := validator.New([]string{filepath.Join(directory, "{{.ResourceKind}}.json")},
		validator.Opts{KubernetesVersion: version, Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	return func(manifest string) []validator.Result {
		return v.Validate("manifest", io.NopCloser(strings.NewReader(manifest)))
	}
}

// download returns the directory of a module's version.
func download(t testing.TB, module string) string {
	t.Helper()
	download := exec.Command("go", "mod", "download", "-json", module)
	download.Dir = t.TempDir()
	output, err := download.Output()
	var found struct{ Dir string }
	if err == nil {
		err = json.Unmarshal(output, &found)
	}
	if err != nil {
		t.Fatalf("%v: %v\n%s", download, err, output)
	}
	return found.Dir
}

// writeSchemas converts the specification of a version: objects take the fields that they have and no other.
func writeSchemas(t testing.TB, version, file string) {
	t.Helper()
	module := download(t, "k8s.io/kubernetes@v"+version)
	var specification struct{ Definitions map[string]map[string]any }
	if err := json.Unmarshal([]byte(mustRead(t, filepath.Join(module, "api", "openapi-spec", "swagger.json"))),
		&specification); err != nil {
		t.Fatal(err)
	}
	needed := map[string]any{}
	for _, name := range slices.Sorted(maps.Values(kinds)) {
		need(t, specification.Definitions, name, needed)
	}
	data, err := json.Marshal(needed)
	if err == nil {
		err = os.WriteFile(file, append(data, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("%s: %d definitions, %d bytes\n", file, len(needed), len(data))
}

// need adds a definition, and those that it refers to, to needed.
func need(t testing.TB, definitions map[string]map[string]any, name string, needed map[string]any) {
	if needed[name] != nil {
		return
	}
	definition := definitions[name]
	if definition == nil {
		t.Fatalf("there is no definition of %s", name)
	}
	needed[name] = definition
	switch name {
	case "io.k8s.apimachinery.pkg.util.intstr.IntOrString":
		needed[name] = map[string]any{"type": []string{"integer", "string"}}
		return
	case "io.k8s.apimachinery.pkg.api.resource.Quantity":
		needed[name] = map[string]any{"type": []string{"number", "string"}}
		return
	}
	walkSchema(definition, "", func(_ string, object map[string]any) {
		for key := range object {
			_, text := object[key].(string)
			if strings.HasPrefix(key, "x-kubernetes-") || key == "description" && text {
				delete(object, key)
			}
		}
		if _, fields := object["properties"].(map[string]any); fields && object["additionalProperties"] == nil {
			object["additionalProperties"] = false
		}
	})
	walkSchema(definition, "", func(_ string, object map[string]any) {
		if to, ok := object["$ref"].(string); ok {
			need(t, definitions, strings.TrimPrefix(to, reference), needed)
		}
	})
}
