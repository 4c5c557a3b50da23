//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// patience is how long a test waits for what must happen, on a machine however loaded.
const patience = 5 * time.Minute

// user is somebody at a terminal in a checkout, with helm, kubectl and the documentation, and a namespace in which Pod Security
// "restricted" is enforced.
type user struct {
	t         *testing.T
	ctx       context.Context
	namespace string
	checkout  string // path
}

func newUser(t *testing.T, namespace string) *user {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 4*patience)
	t.Cleanup(stop)
	u := &user{t, ctx, namespace, filepath.Join("..", "..")}
	u.kubectl("create", "namespace", namespace)
	u.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
	return u
}

// install does `helm install dbqpg` with a preset and values over it, and returns what is noted. Further flags are such as --wait.
func (u *user) install(preset, values string, flags ...string) (notes string) {
	u.t.Helper()
	_, notes, noted := strings.Cut(u.release("install", preset, values, flags), "\nNOTES:\n")
	if !noted {
		u.t.Fatal("helm install has no notes")
	}
	return notes
}

// upgrade does `helm upgrade dbqpg`.
func (u *user) upgrade(preset, values string, flags ...string) {
	u.t.Helper()
	u.release("upgrade", preset, values, flags)
}

func (u *user) release(command, preset, values string, flags []string) string {
	u.t.Helper()
	arguments := []string{command, "dbqpg", "charts/dbqpg", "--values", filepath.Join("helm", preset+".yaml"), "--values", u.file(values)}
	return u.helm(append(arguments, flags...)...)
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
	return u.finish("helm", append([]string{"--namespace", u.namespace, "--timeout", patience.String()}, arguments...)...)
}

// kubectl runs kubectl in the user's namespace.
func (u *user) kubectl(arguments ...string) string {
	u.t.Helper()
	return u.finish("kubectl", append([]string{"--namespace", u.namespace}, arguments...)...)
}

// shell runs a line of the documentation.
func (u *user) shell(line string) string {
	u.t.Helper()
	return u.finish("sh", "-euc", line)
}

// finish runs a command to its end, in the checkout, and returns its output.
func (u *user) finish(name string, arguments ...string) string {
	u.t.Helper()
	output, err := u.try(name, arguments...)
	if err != nil {
		u.t.Fatalf("%v\n%s", err, u.state())
	}
	return output
}

// try is finish for a command that may fail.
func (u *user) try(name string, arguments ...string) (string, error) {
	if name != "sh" {
		name = filepath.Join(programs, name)
	}
	command := exec.CommandContext(u.ctx, name, arguments...)
	command.Dir = u.checkout
	command.Env = surroundings()
	var complaint bytes.Buffer
	command.Stderr = &complaint
	output, err := command.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w\n%s%s", strings.Join(command.Args, " "), err, output, complaint.Bytes())
	}
	return string(output), err
}

// surroundings returns the environment in which helm and kubectl are found and find the cluster.
func surroundings() []string {
	return append(os.Environ(), "KUBECONFIG="+kubernetes.Kubeconfig, "PATH="+programs+":"+os.Getenv("PATH"), "HOME="+filepath.Dir(kubernetes.Kubeconfig))
}

// state returns what a user would look at to diagnose a failure.
func (u *user) state() string {
	state, err := u.try("kubectl", "--namespace", u.namespace, "get", "pods,jobs,pvc,events")
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
	list, err := kubernetes.Client.CoreV1().Pods(u.namespace).List(u.ctx, options)
	if err != nil {
		u.t.Fatal(err)
	}
	return list.Items
}
