//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/dbqpg/dbqpg/helm/offline"
)

// What scripts/chart_e2e.sh gives.
var (
	programs  = os.Getenv("DBQPG_E2E_PROGRAMS") // directory of Kubernetes' programs, helm, and learner
	images    = os.Getenv("DBQPG_E2E_IMAGES")   // directory of archives
	directory = os.Getenv("DBQPG_E2E_DIRECTORY")
	driver    = os.Getenv("DBQPG_E2E_DRIVER") // directory of the libraries that a pod with a GPU is given
	shell     = os.Getenv("DBQPG_E2E_SHELL")  // to run in place of the tests
)

var kubernetes *offline.Cluster

// TestMain starts the cluster for all tests.
func TestMain(m *testing.M) {
	if programs == "" {
		fmt.Fprintln(os.Stderr, "these tests need a cluster: `make chart-e2e` starts one and runs them")
		os.Exit(1)
	}
	status, err := inCluster(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

func inCluster(test func() int) (status int, err error) {
	archives, err := filepath.Glob(filepath.Join(images, "*.tar"))
	if err != nil {
		return 1, err
	}
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	kubernetes, err = offline.Start(ctx, offline.Options{Programs: programs, Images: archives, Directory: directory, Volumes: 150})
	if err != nil {
		return 1, err
	}
	defer kubernetes.Close()
	if shell == "" {
		return test(), nil
	}
	terminal := exec.Command(shell)
	terminal.Dir, terminal.Env = filepath.Join("..", ".."), surroundings()
	terminal.Stdin, terminal.Stdout, terminal.Stderr = os.Stdin, os.Stdout, os.Stderr
	return 0, terminal.Run()
}
