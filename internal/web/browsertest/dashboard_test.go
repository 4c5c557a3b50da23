package browsertest

import (
	"testing"

	"github.com/chromedp/chromedp"
)

const published = "testdata/swimmer"

// The table of the runs in a directory, their groups and curves, and the page that compares.
func TestDashboard(t *testing.T) {
	t.Parallel()
	needPackages(t)
	p := open(t, address(start(t, "learner", "dashboard", published, "--http", "127.0.0.1:0")), "")
	p.says("npg-uapg-s1")
	p.drawn(1)
	p.look("runs")
	p.accessible()
	jumps := evaluate[float64](p, `new Promise((done) => {
		let sum = 0;
		new PerformanceObserver((list) => list.getEntries().forEach((e) => (sum += e.value)))
			.observe({type: 'layout-shift', buffered: true});
		setTimeout(() => done(sum), 100);
	})`)
	if jumps > 0.1 {
		t.Errorf("the layout has jumped by %.2f; 0.1 is called good", jumps)
	}
	p.to("#/?group=task+algorithm+estimator")
	p.says("Swimmer-v2, npg, uapg")
	p.until(`document.querySelectorAll('.legend dt').length === 3`)
	p.look("groups")
	p.accessible()
	// leaves two
	p.do(chromedp.Click(chromedp.CSS(`input[aria-label="curve of task=Swimmer-v2 algorithm=npg estimator=mc"]`)))
	p.until(`document.querySelectorAll('.legend dt').length === 2`)
	p.do(chromedp.Click(chromedp.CSS(`a.button`)))
	p.says("Add the runs of")
	p.until(`document.querySelectorAll('.legend dt').length === 2`)
	p.look("compare")
	p.accessible()
	shared := evaluate[string](p, `location.hash`)
	again := open(t, p.url, shared) // an address says all
	again.until(`document.querySelectorAll('.legend dt').length === 2`)
	p.to("#/?q=estimator%3Duapg")
	p.until(`document.querySelectorAll('tbody tr').length === 2`)
	p.to("#/?q=nothing-is-called-so")
	p.says("No run matches")
	p.accessible()
	p.to("#/run/npg-uapg-s1")
	p.drawn(10)
	p.look("run")
	p.accessible()
	p.to("#/run/nobody")
	p.says("there is no run called")
	p.to("#/") // that page goes on asking, for a run that has just begun
	p.until(`document.querySelectorAll('tbody tr').length > 2`)
	p.expectComplaint("404")
}

// A page that is out of sight asks for nothing, and asks again when it is looked at.
func TestHiddenPageAsksNothing(t *testing.T) {
	t.Parallel()
	p := open(t, address(start(t, "learner", "dashboard", published, "--http", "127.0.0.1:0")), "")
	p.drawn(1)
	asked := evaluate[int](p, `{
		const real = fetch;
		window.asked = 0;
		window.fetch = (url, options) => (asked += Number(url === 'data/runs?limit=0'), real(url, options));
		window.hide = (hidden) => {
			Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});
			document.dispatchEvent(new Event('visibilitychange'));
		};
		hide(true);
		new Promise((resolve) => setTimeout(() => resolve(asked), 5000)); // it would have asked twice
	}`)
	if asked != 0 {
		t.Errorf("out of sight, it asks %d times", asked)
	}
	evaluate[chromedp.Void](p, `hide(false)`)
	p.until(`asked > 1`)
}
