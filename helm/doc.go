// Package helm holds the tests of the chart charts/dbqpg.
//
// It is a module of its own, so that the product's go.mod stays free of Helm and Kubernetes. The tests render the
// chart by Helm's own library and look at the objects that come out, run what these say as processes of this machine
// (training_test.go), and, with the tag e2e, install the chart in a real API server (make chart-e2e).
package helm
