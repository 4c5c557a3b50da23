// Package e2e installs the chart in a real cluster, with its images, and uses it as docs/kubernetes says, in the very
// words. Its tests have the build tag e2e: `make chart-e2e` runs them, in the cluster that KUBECONFIG names, or else in
// one that it starts ([github.com/dbqpg/dbqpg/helm/offlinetest]).
package e2e
