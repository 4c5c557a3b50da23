package play_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestPicture takes docs/dashboard.md's picture of a policy at play, of the run TASK/NAME of a directory, which
// DBQPG_TEST_PICTURE names as DIR/TASK/NAME, to where DBQPG_SCREENSHOTS says.
func TestPicture(t *testing.T) {
	run := os.Getenv("DBQPG_TEST_PICTURE")
	if run == "" {
		t.Skip("DBQPG_TEST_PICTURE names no run's directory")
	}
	task, name := filepath.Split(run)
	url, _ := serveSite(t, filepath.Dir(filepath.Clean(task)))
	const nearer = `document.querySelector('.play-stage canvas').dispatchEvent(
		new WheelEvent('wheel', {deltaY: -400, bubbles: true, cancelable: true})), undefined`
	ctx := page(t, 1230, 900, url+"/#/run/"+filepath.Base(task)+"/"+name+"?tab=watch", software...)
	do(t, ctx, chromedp.EmulateViewport(1230, 900), steps(2), chromedp.Evaluate[chromedp.Void](nearer), steps(140),
		chromedp.KeyEvent(" "), text(".play-controls", "Play"))
	still(t, ctx, ".play-stage", "stage")
	picture(t, ctx, "body", "watch")
}
