package helm

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// definition is where a project keeps the CustomResourceDefinition of a kind, and the version of it that the manifests
// are checked against.
type definition struct{ module, version, path string }

// definitions are those of the kinds that the chart makes for operators which a cluster may have. They are in
// testdata/crds as a cluster can install them, without the descriptions; go test -run Conform -update makes them from
// the projects' modules.
var definitions = map[string]definition{
	"Certificate": {"github.com/cert-manager/cert-manager", "v1.21.2",
		"deploy/crds/cert-manager.io_certificates.yaml"},
	"PrometheusRule": {"github.com/prometheus-operator/prometheus-operator", "v0.94.1",
		"example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml"},
	"ScaledObject": {"github.com/kedacore/keda/v2", "v2.21.0", "config/crd/bases/keda.sh_scaledobjects.yaml"},
	"ServiceMonitor": {"github.com/prometheus-operator/prometheus-operator", "v0.94.1",
		"example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml"},
}

func (d definition) file() string { return filepath.Join("testdata", "crds", path.Base(d.path)) }

// write makes the file from the project's own.
func (d definition) write(t testing.TB) {
	t.Helper()
	var crd map[string]any
	if err := yaml.Unmarshal([]byte(mustRead(t, filepath.Join(download(t, d.module+"@"+d.version), d.path))),
		&crd); err != nil {
		t.Fatal(err)
	}
	walkSchema(crd, "", func(_ string, object map[string]any) {
		if _, text := object["description"].(string); text {
			delete(object, "description")
		}
	})
	data, err := yaml.Marshal(crd)
	if err == nil {
		header := fmt.Sprintf("# %s of %s@%s (Apache-2.0), without the descriptions.\n", d.path, d.module, d.version)
		err = os.WriteFile(d.file(), append([]byte(header), data...), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// schema is what the API server checks a kind's objects by, as a JSON schema: objects take the fields that they have
// and no other (the server would drop those), and the metadata is that of every kind. Rules in CEL are not in it.
func (d definition) schema(t testing.TB) map[string]any {
	t.Helper()
	var crd struct {
		Spec struct {
			Group    string
			Versions []struct {
				Name   string
				Served bool
				Schema struct {
					OpenAPIV3Schema map[string]any `json:"openAPIV3Schema"`
				}
			}
		}
	}
	if err := yaml.Unmarshal([]byte(mustRead(t, d.file())), &crd); err != nil {
		t.Fatal(err)
	}
	if len(crd.Spec.Versions) != 1 || !crd.Spec.Versions[0].Served {
		t.Fatalf("%s: not one served version", d.file())
	}
	version := crd.Spec.Versions[0]
	schema := version.Schema.OpenAPIV3Schema
	walkSchema(schema, "", func(_ string, object map[string]any) {
		open := object["additionalProperties"] != nil || object["x-kubernetes-preserve-unknown-fields"] == true
		if object["type"] == "object" && !open {
			object["additionalProperties"] = false
		}
		if object["x-kubernetes-int-or-string"] == true {
			object["type"] = []any{"integer", "string"}
		}
	})
	fields := schema["properties"].(map[string]any)
	fields["apiVersion"] = map[string]any{"enum": []string{crd.Spec.Group + "/" + version.Name}}
	fields["metadata"] = map[string]any{"$ref": reference + "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
	return schema
}

// cert-manager's code, which the tests link, is of the version of its definition.
func TestOneVersion(t *testing.T) {
	d := definitions["Certificate"]
	if wanted := "\t" + d.module + " " + d.version; !strings.Contains(mustRead(t, "go.mod"), wanted+"\n") {
		t.Errorf("go.mod does not have %s", wanted)
	}
}

// Each component that has metrics is read by one monitor: of the Services in its own namespace, one has the monitor's
// labels, and the port that it names.
func TestMonitors(t *testing.T) {
	r := render(t, valueSets(t)["monitoring"])
	monitors := r.ofKind("ServiceMonitor")
	if len(monitors) != 4 {
		t.Fatal(len(monitors))
	}
	for _, o := range monitors {
		if o.GetLabels()["release"] != "prometheus" {
			t.Errorf("%s: a Prometheus that selects by the labels in the values does not find it: %v", o.GetName(),
				o.GetLabels())
		}
		wanted, _, _ := unstructured.NestedStringMap(o.Object, "spec", "selector", "matchLabels")
		endpoints, _, _ := unstructured.NestedSlice(o.Object, "spec", "endpoints")
		if len(endpoints) != 1 || len(wanted) == 0 {
			t.Fatal(o.Object)
		}
		read := 0
		for _, s := range r.ofKind("Service") {
			if hasLabels(s, wanted) && s.GetNamespace() == o.GetNamespace() {
				for _, port := range convert[corev1.Service](t, s.Object).Spec.Ports {
					if port.Name == endpoints[0].(map[string]any)["port"] {
						read++
					}
				}
			}
		}
		if read != 1 {
			t.Errorf("%s: %d Services have the port: a pod is read so many times", o.GetName(), read)
		}
	}
}

func hasLabels(o *unstructured.Unstructured, wanted map[string]string) bool {
	for key, value := range wanted {
		if o.GetLabels()[key] != value {
			return false
		}
	}
	return true
}

// A pool that KEDA scales is a Deployment that there is and whose number of pods nobody else sets; and it goes to 0
// when no slot is useful: nothing says that any other number than 0 means that nobody is needed. Its
// HorizontalPodAutoscaler, which KEDA names, has a name that is no longer than a label may be.
func TestScaledObject(t *testing.T) {
	r := render(t, valueSets(t)["autoscaling"])
	o := r.find(t, "ScaledObject", "dbqpg-actor-useful")
	text := func(fields ...string) string {
		value, _, _ := unstructured.NestedString(o.Object, fields...)
		return value
	}
	if text("spec", "scaleTargetRef", "apiVersion") != "apps/v1" ||
		text("spec", "scaleTargetRef", "kind") != "Deployment" {
		t.Error(o.Object["spec"])
	}
	pool := r.find(t, "Deployment", text("spec", "scaleTargetRef", "name"))
	if _, fixed, _ := unstructured.NestedFieldNoCopy(pool.Object, "spec", "replicas"); fixed {
		t.Error("the Deployment has a number of pods of its own: an upgrade would undo the scaling")
	}
	if least, given, _ := unstructured.NestedInt64(o.Object, "spec", "minReplicaCount"); !given || least != 0 {
		t.Error(least, given)
	}
	triggers, _, _ := unstructured.NestedSlice(o.Object, "spec", "triggers")
	data, err := json.Marshal(triggers[0].(map[string]any)["metadata"])
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"authModes":"bearer","query":"0.5 * sum(max_over_time(` +
		`dbqpg_learner_useful_actors{namespace=\"training\",service=\"dbqpg-learner\"}[5m]))",` +
		`"serverAddress":"http://prometheus-operated.monitoring.svc:9090","threshold":"8"}`
	if string(data) != want {
		t.Errorf("the trigger is\n%s, want\n%s", data, want)
	}
	values := parse(t, "actors: {pools: {abcdefghijklmnop: {replicas: null, autoscaling: {type: keda}}}}")
	longest, err := renderAs(loadChart(t), strings.Repeat("dbqpg", 10), values)
	if err != nil {
		t.Fatal(err)
	}
	scaled := longest.ofKind("ScaledObject")[0]
	name := "keda-hpa-" + scaled.GetName()
	if given, ok, _ := unstructured.NestedString(scaled.Object, "spec", "advanced", "horizontalPodAutoscalerConfig",
		"name"); ok {
		name = given
	}
	if len(name) > 63 {
		t.Errorf("the HorizontalPodAutoscaler's name, %s, has %d letters", name, len(name))
	}
}
