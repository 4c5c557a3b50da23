//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chartutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// patience is how long a test waits for what must happen, on a machine however loaded.
const patience = 5 * time.Minute

// namespace is that of the documentation.
const namespace = "training"

// user is somebody at a terminal with helm, kubectl, the product's programs, the chart and the documentation, and a
// namespace in which Pod Security "restricted" is enforced.
type user struct {
	t         *testing.T
	ctx       context.Context
	directory string // with charts/, my-values.yaml and whatever the documentation makes
	extra     []string
}

func newUser(t *testing.T) *user {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 4*patience)
	t.Cleanup(stop)
	u := &user{t: t, ctx: ctx, directory: t.TempDir()}
	if err := os.CopyFS(filepath.Join(u.directory, "charts"),
		os.DirFS(filepath.Join("..", "..", "charts"))); err != nil {
		t.Fatal(err)
	}
	u.kubectl("create", "namespace", namespace)
	t.Cleanup(func() {
		if _, err := u.try("kubectl", "delete", "namespace", namespace, "--timeout", patience.String()); err != nil {
			t.Error(err)
		}
	})
	u.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
	return u
}

// values writes my-values.yaml: a preset, and values over it.
func (u *user) values(preset, text string, further ...map[string]any) {
	u.t.Helper()
	all, err := chartutil.ReadValuesFile(filepath.Join("..", "..", "charts", "dbqpg", "presets", preset+".yaml"))
	if err != nil {
		u.t.Fatal(err)
	}
	over, err := chartutil.ReadValues([]byte(text))
	if err != nil {
		u.t.Fatal(err)
	}
	for _, more := range further {
		over = overlay(over, more)
	}
	data, err := yaml.Marshal(overlay(all, over))
	if err == nil {
		err = os.WriteFile(filepath.Join(u.directory, "my-values.yaml"), data, 0o600)
	}
	if err != nil {
		u.t.Fatal(err)
	}
}

// overlay returns values with others over them, nulls kept.
func overlay(into, from map[string]any) map[string]any {
	for key, value := range from {
		old, isMap := into[key].(map[string]any)
		if fields, also := value.(map[string]any); isMap && also {
			value = overlay(old, fields)
		}
		into[key] = value
	}
	return into
}

// install does `helm install dbqpg` with a preset and values over it, and returns what is noted. Further flags are such
// as --wait.
func (u *user) install(preset, values string, flags ...string) (notes string) {
	u.t.Helper()
	u.values(preset, values)
	_, notes, noted := strings.Cut(u.helm(append(
		[]string{"install", "dbqpg", "charts/dbqpg", "--values", "my-values.yaml"}, flags...)...), "\nNOTES:\n")
	if !noted {
		u.t.Fatal("helm install has no notes")
	}
	return notes
}

// upgrade does `helm upgrade dbqpg`, as documented.
func (u *user) upgrade(preset, values string) {
	u.t.Helper()
	u.values(preset, values)
	u.run("operate", "upgrade")
}

// file writes a file, such as one of values, and returns its path.
func (u *user) file(text string) string {
	u.t.Helper()
	path := filepath.Join(u.t.TempDir(), "file.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		u.t.Fatal(err)
	}
	return path
}

// helm runs helm in the user's namespace.
func (u *user) helm(arguments ...string) string {
	u.t.Helper()
	return u.finish("helm", append([]string{"--namespace", namespace, "--timeout", patience.String()}, arguments...)...)
}

// kubectl runs kubectl in the user's namespace.
func (u *user) kubectl(arguments ...string) string {
	u.t.Helper()
	return u.finish("kubectl", append([]string{"--namespace", namespace}, arguments...)...)
}

// shell runs a line of the documentation.
func (u *user) shell(line string) string {
	u.t.Helper()
	return u.finish("sh", "-euc", line)
}

// finish runs a command to its end, in the user's directory, and returns its output.
func (u *user) finish(name string, arguments ...string) string {
	u.t.Helper()
	output, err := u.try(name, arguments...)
	if err != nil {
		u.t.Fatalf("%v\n%s", err, u.state())
	}
	return output
}

// try is finish for a command that may fail. What it leaves in the background ends with it.
func (u *user) try(name string, arguments ...string) (string, error) {
	if name != "sh" {
		name = filepath.Join(programs, name)
	}
	command := exec.CommandContext(u.ctx, name, arguments...)
	command.Dir, command.Env = u.directory, append(surroundings(), u.extra...)
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	said := [2]*os.File{} // not pipes, which a port-forward would keep open
	for i := range said {
		file, err := os.CreateTemp(u.directory, "said-")
		if err != nil {
			return "", err
		}
		defer os.Remove(file.Name())
		defer file.Close()
		said[i] = file
	}
	command.Stdout, command.Stderr = said[0], said[1]
	err := command.Run()
	if command.Process != nil {
		_ = syscall.Kill(-command.Process.Pid, syscall.SIGKILL)
	}
	output, failed := os.ReadFile(said[0].Name())
	if err == nil {
		err = failed
	}
	if err != nil {
		complaint, _ := os.ReadFile(said[1].Name())
		err = fmt.Errorf("%s: %w\n%s%s", strings.Join(command.Args, " "), err, output, complaint)
	}
	return string(output), err
}

// surroundings returns the environment in which programs are found and find the cluster.
func surroundings() []string {
	return append(os.Environ(), "KUBECONFIG="+kubeconfig, "PATH="+programs+":"+os.Getenv("PATH"))
}

// state returns what a user would look at to diagnose a failure.
func (u *user) state() string {
	state, err := u.try("kubectl", "--namespace", namespace, "get", "pods,jobs,pvc,events")
	if err != nil {
		return err.Error()
	}
	return state
}

// until waits until a question has the answer "", which is otherwise what is still missing.
func (u *user) until(ask func() (missing string)) {
	u.t.Helper()
	for late := time.Now().Add(patience); ; time.Sleep(200 * time.Millisecond) {
		missing := ask()
		if missing == "" {
			return
		}
		if time.Now().After(late) {
			u.t.Fatalf("%s\n%s", missing, u.state())
		}
	}
}

// pods returns the pods of a component; all, if it is "".
func (u *user) pods(component string) []corev1.Pod {
	u.t.Helper()
	var options metav1.ListOptions
	if component != "" {
		options.LabelSelector = "app.kubernetes.io/component=" + component
	}
	list, err := client.CoreV1().Pods(namespace).List(u.ctx, options)
	if err != nil {
		u.t.Fatal(err)
	}
	return list.Items
}
