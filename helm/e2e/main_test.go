//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/dbqpg/dbqpg/helm/offlinetest"
)

// What scripts/chart_e2e.sh gives.
var (
	// directory of helm, kubectl and the product's programs, and Kubernetes' for a cluster of our own
	programs  = os.Getenv("DBQPG_E2E_PROGRAMS")
	images    = os.Getenv("DBQPG_E2E_IMAGES") // directory of archives, for a cluster of our own
	directory = os.Getenv("DBQPG_E2E_DIRECTORY")
	driver    = os.Getenv("DBQPG_E2E_DRIVER") // directory of the libraries that a pod with a GPU is given
	shell     = os.Getenv("DBQPG_E2E_SHELL")  // to run in place of the tests
)

// The cluster.
var (
	client     kubernetes.Interface
	kubeconfig string
	own        *offlinetest.Cluster // nil: the one that KUBECONFIG names
)

// TestMain starts the cluster for all tests, unless KUBECONFIG names one.
func TestMain(m *testing.M) {
	if programs == "" {
		fmt.Fprintln(os.Stderr, "these tests need programs, and a cluster: `make chart-e2e` builds and starts them")
		os.Exit(1)
	}
	var status int
	var err error
	if directory == "" {
		status, err = inTheirs(m.Run)
	} else {
		status, err = inOwn(m.Run)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

// inTheirs runs the tests in the cluster of KUBECONFIG.
func inTheirs(test func() int) (int, error) {
	kubeconfig = os.Getenv("KUBECONFIG")
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return 1, err
	}
	if client, err = kubernetes.NewForConfig(config); err != nil {
		return 1, err
	}
	return test(), nil
}

func inOwn(test func() int) (status int, err error) {
	archives, err := filepath.Glob(filepath.Join(images, "*.tar"))
	if err != nil {
		return 1, err
	}
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	own, err = offlinetest.Start(ctx, offlinetest.Options{Programs: programs, Images: archives, Directory: directory,
		Volumes: 150})
	if err != nil {
		return 1, err
	}
	defer own.Close()
	client, kubeconfig = own.Client, own.Kubeconfig
	if shell == "" {
		return test(), nil
	}
	terminal := exec.Command(shell)
	terminal.Dir, terminal.Env = filepath.Join("..", ".."), surroundings()
	terminal.Stdin, terminal.Stdout, terminal.Stderr = os.Stdin, os.Stdout, os.Stderr
	return 0, terminal.Run()
}

// needsOwn skips a test that does what can be done to the offline cluster alone.
func needsOwn(t *testing.T, what string) {
	t.Helper()
	if own == nil {
		t.Skipf("%s: in the offline cluster alone", what)
	}
}
