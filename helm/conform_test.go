package helm

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/yannh/kubeconform/pkg/validator"
)

// kubernetes are the versions whose API the manifests are checked against. Their schemas are in testdata/schemas, made from the
// specification in the module k8s.io/kubernetes by go test -run Conform -update: what the kinds below need, without the
// descriptions.
var kubernetes = []string{"1.32.1", "1.33.1", "1.34.1"}

// kinds are all that the chart makes, by the names of their definitions.
var kinds = map[string]string{
	"ConfigMap":               "io.k8s.api.core.v1.ConfigMap",
	"Deployment":              "io.k8s.api.apps.v1.Deployment",
	"HorizontalPodAutoscaler": "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler",
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

// others are kinds of operators that a cluster may have; their schemas are not Kubernetes' own.
var others = []string{"Certificate", "ScaledObject", "ServiceMonitor"}

// Every object, with any values, is what the API of each version takes, and has no field that it does not know.
func TestConform(t *testing.T) {
	for _, version := range kubernetes {
		t.Run(version, func(t *testing.T) {
			check := newValidator(t, version)
			for name, values := range valueSets(t) {
				seen := 0
				for _, result := range check(render(t, values).manifest) {
					switch {
					case result.Status == validator.Valid:
						seen++
					case result.Status == validator.Skipped || result.Status == validator.Empty:
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

// The check finds what is wrong: a value of another type, a field that there is not.
func TestConformFinds(t *testing.T) {
	check := newValidator(t, kubernetes[0])
	for _, wrong := range []string{"ports: [{port: https}]", "clusterIp: None"} {
		manifest := "apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {" + wrong + "}\n"
		if results := check(manifest); len(results) != 1 || results[0].Status != validator.Invalid {
			t.Errorf("%s: %v", wrong, results)
		}
	}
}

func newValidator(t testing.TB, version string) func(manifest string) []validator.Result {
	t.Helper()
	path := filepath.Join("testdata", "schemas", "v"+version+".json")
	if *update {
		writeSchemas(t, version, path)
	}
	var definitions map[string]any
	if err := json.Unmarshal([]byte(mustRead(t, path)), &definitions); err != nil {
		t.Fatal(err)
	}
	directory := t.TempDir()
	for kind, name := range kinds {
		schema, err := json.Marshal(map[string]any{"$ref": "#/definitions/" + name, "definitions": definitions})
		if err == nil {
			err = os.WriteFile(filepath.Join(directory, strings.ToLower(kind)+".json"), schema, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	v, err := validator.New([]string{filepath.Join(directory, "{{.ResourceKind}}.json")}, validator.Opts{
		KubernetesVersion: version, Strict: true, SkipKinds: asSet(others),
	})
	if err != nil {
		t.Fatal(err)
	}
	return func(manifest string) []validator.Result {
		return v.Validate("manifest", io.NopCloser(strings.NewReader(manifest)))
	}
}

func asSet(names []string) map[string]struct{} {
	set := map[string]struct{}{}
	for _, name := range names {
		set[name] = struct{}{}
	}
	return set
}

// writeSchemas converts the specification of a version: objects take the fields that they have and no other.
func writeSchemas(t testing.TB, version, path string) {
	t.Helper()
	download := exec.Command("go", "mod", "download", "-json", "k8s.io/kubernetes@v"+version)
	download.Dir = t.TempDir()
	output, err := download.Output()
	var module struct{ Dir string }
	if err == nil {
		err = json.Unmarshal(output, &module)
	}
	if err != nil {
		t.Fatalf("%v: %v\n%s", download, err, output)
	}
	var specification struct{ Definitions map[string]map[string]any }
	if err := json.Unmarshal([]byte(mustRead(t, filepath.Join(module.Dir, "api", "openapi-spec", "swagger.json"))), &specification); err != nil {
		t.Fatal(err)
	}
	needed := map[string]any{}
	for _, name := range slices.Sorted(maps.Values(kinds)) {
		need(t, specification.Definitions, name, needed)
	}
	data, err := json.Marshal(needed)
	if err == nil {
		err = os.WriteFile(path, append(data, '\n'), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("%s: %d definitions, %d bytes\n", path, len(needed), len(data))
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
	const prefix = "#/definitions/"
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
		if reference, ok := object["$ref"].(string); ok {
			need(t, definitions, strings.TrimPrefix(reference, prefix), needed)
		}
	})
}
