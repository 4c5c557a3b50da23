package browsertest

import (
	"testing"
)

const published = "../../../docs/results/swimmer"

// The table of the runs in a directory, and their curves.
func TestDashboard(t *testing.T) {
	needPackages(t)
	url := address(start(t, "learner", "dashboard", published, "--http", "127.0.0.1:0"))
	p := open(t, url, "")
	p.says("npg-uapg-s1")
	p.drawn(1)
	p.look("runs")
	p.accessible()
	p.to("#/?group=task+algorithm+estimator")
	p.says("Swimmer-v2, npg, uapg")
	p.drawn(1)
	p.look("groups")
	p.accessible()
	p.to("#/run/npg-uapg-s1")
	p.drawn(10)
	p.look("run")
	p.accessible()
}
