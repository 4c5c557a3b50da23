package browsertest

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// The pages of a run that is being trained grow with it, and say when the program is gone.
func TestLearner(t *testing.T) {
	t.Parallel()
	needPackages(t)
	directory := filepath.Join(t.TempDir(), "run")
	learner := start(t, "learner", "--env", "InvertedPendulum-v5", "--batch", "500", "--iterations", "100000",
		"--evaluate-every", "2", "--actors", "1",
		"--run-dir", directory, "--http", "127.0.0.1:0")
	p := open(t, address(learner), "")
	p.says("InvertedPendulum-v5/run") // the only run's page, without asking
	p.says("running")
	p.drawn(10)
	p.until(`+document.querySelector('.plot').dataset.points > 5`) // rows come by themselves
	p.says("stages of an update")
	p.look("curves")
	p.accessible()
	for _, tab := range []struct{ name, says string }{
		{"evaluations", "mean action return"}, {"settings", "gae_lambda"}, {"events", "from iteration 0 on"},
		{"files", "best.safetensors"}, {"log", "iteration done"},
	} {
		p.to(p.runAddress() + "?tab=" + tab.name)
		p.says(tab.says)
		p.look(tab.name)
		p.accessible()
	}
	p.to(p.runAddress() + "?tab=settings&with=InvertedPendulum-v5/run")
	p.says("The two have the same settings")
	size := evaluate[int](p,
		`fetch(document.querySelector('base')?.href ??
			'data/file?name=' + encodeURIComponent(decodeURIComponent(location.hash.slice(6).split('?')[0])) +
			'&file=checkpoints/best.safetensors').then((r) => r.arrayBuffer()).then((b) => b.byteLength)`)
	if size < 10_000 {
		t.Errorf("the best checkpoint is downloaded as %d bytes", size)
	}
	// Answers that take longer than an iteration come, too.
	evaluate[chromedp.Void](p, `{
		const real = fetch;
		window.fetch = (address, options) => new Promise((resolve, reject) => {
			options?.signal?.addEventListener('abort', () => reject(new DOMException('aborted', 'AbortError')));
			setTimeout(() => options?.signal?.aborted || resolve(real(address, options)),
				String(address).startsWith('data/curves') ? 2500 : 0);
		});
	}`)
	p.to("#/?sort=name")
	p.says("running")
	p.drawn(1)
	learner.Signal(syscall.SIGKILL)
	p.says("no connection")
	p.expectComplaint("Failed to load resource")
}

// runAddress returns the address of the run that the page shows.
func (p *page) runAddress() string {
	p.t.Helper()
	return evaluate[string](p, `location.hash.split('?')[0]`)
}

// The keyboard reaches everything: a link past the header, the table's sorting, the curves' cursor.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	p := open(t, address(start(t, "learner", "dashboard", published, "--http", "127.0.0.1:0")), "#/?sort=return")
	p.drawn(1)
	p.do(chromedp.KeyEvent(kb.Tab))
	if text := evaluate[string](p, `document.activeElement.textContent`); text != "Skip to the content" {
		t.Errorf("the first tab stop is %q", text)
	}
	p.do(chromedp.KeyEvent(kb.Enter))
	for range 30 {
		p.do(chromedp.KeyEvent(kb.Tab))
		if evaluate[bool](p, `document.activeElement.classList.contains('plot')`) {
			break
		}
	}
	before := evaluate[string](p, `document.querySelector('.legend dd').textContent`)
	for range 3 {
		p.do(chromedp.KeyEvent(kb.ArrowLeft))
	}
	p.until(fmt.Sprintf(`document.querySelector('.legend dd').textContent !== %q`, before))
	evaluate[chromedp.Void](p, `document.querySelector('th.col-return button').focus()`)
	p.do(chromedp.KeyEvent(kb.Enter))
	p.until(`document.querySelector('th.col-return').ariaSort === 'descending'`)
	if hash := evaluate[string](p, `location.hash`); !strings.Contains(hash, "desc=1") {
		t.Errorf("the address %s does not say how the table is sorted", hash)
	}
}

// On a telephone nothing is wider than the screen, and in the dark nothing is unreadable.
func TestNarrowAndDark(t *testing.T) {
	t.Parallel()
	needPackages(t)
	url := address(start(t, "learner", "dashboard", published, "--http", "127.0.0.1:0"))
	for _, path := range []string{
		"#/", "#/?group=task+estimator", "#/run/npg-uapg-s1", "#/run/npg-uapg-s1?tab=settings",
		"#/compare?g=estimator%3Dmc&g=estimator%3Duapg&statistic=iqm&smooth=0.6&log=1&axis=steps",
	} {
		p := open(t, url, "")
		p.do(chromedp.EmulateViewport(400, 800))
		evaluate[chromedp.Void](p, `localStorage.setItem('theme', 'dark')`)
		p.do(chromedp.Navigate(url + "?" + fmt.Sprint(len(path)) + path))
		if strings.Contains(path, "settings") {
			p.says("gae_lambda")
		} else {
			p.drawn(1)
		}
		if wide := evaluate[int](p, `document.documentElement.scrollWidth`); wide > 400 {
			t.Errorf("%s is %d pixels wide", path, wide)
		}
		p.look("narrow-" + strings.NewReplacer("#", "", "/", "_", "?", "_").Replace(path)[:min(14, len(path)-1)])
		p.accessible()
	}
}
