// Package e2e installs the chart in a real cluster ([github.com/dbqpg/dbqpg/helm/offline]), with its images, and uses it as the
// documentation says. Its tests have the build tag e2e: `make chart-e2e` runs them, with the cluster that they need.
package e2e
