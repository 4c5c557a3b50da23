// Package e2e installs the chart in a real cluster ([cluster]), with its images, and uses it as the documentation says.
package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/dbqpg/dbqpg/helm/cluster"
)

var (
	programs   = os.Getenv("DBQPG_E2E_PROGRAMS") // Kubernetes' and ours, in one directory
	kubernetes *cluster.Cluster
)

// TestMain starts the cluster for all tests.
func TestMain(m *testing.M) {
	if programs == "" {
		fmt.Println("the tests in a real cluster are left out: `make chart-e2e` runs them")
		return
	}
	status, err := runAll(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	os.Exit(status)
}

func runAll(m *testing.M) (status int, err error) {
	images, err := filepath.Glob(filepath.Join(os.Getenv("DBQPG_E2E_IMAGES"), "*.tar"))
	if err != nil {
		return 1, err
	}
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	kubernetes, err = cluster.Start(ctx, cluster.Options{
		Programs: programs, Images: images, Directory: os.Getenv("DBQPG_E2E_DIRECTORY"), Volumes: 40,
	})
	defer kubernetes.Close()
	if err != nil {
		return 1, fmt.Errorf("%w\n%s", err, kubernetes.Logs())
	}
	return m.Run(), nil
}
