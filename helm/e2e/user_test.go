package e2e

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/cli"
	"helm.sh/helm/v3/pkg/release"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// patience is how long a test waits for what must happen, on a machine however loaded.
const patience = 5 * time.Minute

// user is somebody at a terminal, with helm, kubectl and the documentation, in a namespace in which Pod Security "restricted"
// is enforced.
type user struct {
	t         *testing.T
	ctx       context.Context
	namespace string
	helm      *action.Configuration
	chart     *chart.Chart
}

func newUser(t *testing.T, namespace string) *user {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 20*time.Minute)
	t.Cleanup(stop)
	space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{
		"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/enforce-version": "latest",
	}}}
	if _, err := kubernetes.Client.CoreV1().Namespaces().Create(ctx, space, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	settings := cli.New()
	settings.KubeConfig = kubernetes.Kubeconfig
	settings.SetNamespace(namespace)
	u := &user{t: t, ctx: ctx, namespace: namespace, helm: new(action.Configuration)}
	if err := u.helm.Init(settings.RESTClientGetter(), namespace, "secret", func(string, ...any) {}); err != nil {
		t.Fatal(err)
	}
	var err error
	if u.chart, err = loader.Load(filepath.Join("..", "..", "charts", "dbqpg")); err != nil {
		t.Fatal(err)
	}
	return u
}

// values reads a preset, and puts others over it.
func (u *user) values(preset, others string) map[string]any {
	u.t.Helper()
	values, err := chartutil.ReadValuesFile(filepath.Join("..", preset+".yaml"))
	over := map[string]any{}
	if err == nil {
		err = yaml.UnmarshalStrict([]byte(others), &over)
	}
	if err != nil {
		u.t.Fatal(err)
	}
	return chartutil.MergeTables(over, values) // the first wins
}

// install does `helm install NAME`, and waits until all is ready if told to.
func (u *user) install(name string, values map[string]any, wait bool) *release.Release {
	u.t.Helper()
	install := action.NewInstall(u.helm)
	install.ReleaseName, install.Namespace, install.Wait, install.Timeout = name, u.namespace, wait, patience
	made, err := install.RunWithContext(u.ctx, u.chart, values)
	if err != nil {
		u.t.Fatalf("helm install: %v\n%s", err, u.kubectl("get", "pods,jobs,events"))
	}
	return made
}

// upgrade does `helm upgrade NAME --wait`.
func (u *user) upgrade(name string, values map[string]any) {
	u.t.Helper()
	upgrade := action.NewUpgrade(u.helm)
	upgrade.Namespace, upgrade.Wait, upgrade.Timeout = u.namespace, true, patience
	if _, err := upgrade.RunWithContext(u.ctx, name, u.chart, values); err != nil {
		u.t.Fatalf("helm upgrade: %v\n%s", err, u.kubectl("get", "pods,jobs,events"))
	}
}

// rollback does `helm rollback NAME REVISION --wait`.
func (u *user) rollback(name string, revision int) {
	u.t.Helper()
	rollback := action.NewRollback(u.helm)
	rollback.Version, rollback.Wait, rollback.Timeout = revision, true, patience
	if err := rollback.Run(name); err != nil {
		u.t.Fatalf("helm rollback: %v\n%s", err, u.kubectl("get", "pods,jobs,events"))
	}
}

// test does `helm test NAME`.
func (u *user) test(name string) {
	u.t.Helper()
	test := action.NewReleaseTesting(u.helm)
	test.Namespace, test.Timeout = u.namespace, patience
	if _, err := test.Run(name); err != nil {
		u.t.Fatalf("helm test: %v\n%s", err, u.kubectl("logs", name+"-test"))
	}
}

// uninstall does `helm uninstall NAME --wait`.
func (u *user) uninstall(name string) {
	u.t.Helper()
	uninstall := action.NewUninstall(u.helm)
	uninstall.Wait, uninstall.Timeout = true, patience
	if _, err := uninstall.Run(name); err != nil {
		u.t.Fatalf("helm uninstall: %v", err)
	}
}

// kubectl runs kubectl in the user's namespace.
func (u *user) kubectl(args ...string) string {
	u.t.Helper()
	return u.finish(exec.CommandContext(u.ctx, filepath.Join(programs, "kubectl"), append([]string{"--namespace", u.namespace}, args...)...))
}

// shell runs a line of the documentation.
func (u *user) shell(line string) string {
	u.t.Helper()
	return u.finish(exec.CommandContext(u.ctx, "sh", "-euc", line))
}

// finish runs a command to its end in the user's surroundings, and returns what it says.
func (u *user) finish(command *exec.Cmd) string {
	u.t.Helper()
	command.Env = append(os.Environ(), "KUBECONFIG="+kubernetes.Kubeconfig, "PATH="+programs+":"+os.Getenv("PATH"))
	var complaint bytes.Buffer
	command.Stderr = &complaint
	output, err := command.Output()
	if err != nil {
		u.t.Fatalf("%s: %v\n%s%s", strings.Join(command.Args, " "), err, output, complaint.Bytes())
	}
	return string(output)
}

// until waits until a question has the answer true.
func (u *user) until(what string, ask func() bool) {
	u.t.Helper()
	for late := time.Now().Add(patience); !ask(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(late) {
			u.t.Fatalf("never came: %s\n%s", what, u.kubectl("get", "pods,events"))
		}
	}
}

// pods returns the pods of a component.
func (u *user) pods(component string) []corev1.Pod {
	u.t.Helper()
	list, err := kubernetes.Client.CoreV1().Pods(u.namespace).List(u.ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/component=" + component})
	if err != nil {
		u.t.Fatal(err)
	}
	return list.Items
}
