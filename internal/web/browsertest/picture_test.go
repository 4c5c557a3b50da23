package browsertest

import (
	"os"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestPicture takes a picture of the pages for the documentation, of the runs in a directory that DBQPG_TEST_PICTURE
// names.
func TestPicture(t *testing.T) {
	directory := os.Getenv("DBQPG_TEST_PICTURE")
	if directory == "" {
		t.Skip("DBQPG_TEST_PICTURE names no directory of runs")
	}
	p := open(t, address(start(t, "learner", "dashboard", directory, "--http", "127.0.0.1:0")), "")
	p.do(chromedp.EmulateViewport(1200, 760))
	p.to("#/?group=task+estimator&smooth=0.6")
	p.drawn(1)
	p.until(`document.querySelectorAll('.legend dt').length === document.querySelectorAll('tbody tr').length`)
	p.look("picture")
}
