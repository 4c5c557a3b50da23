// Package browsertest drives the pages of the real programs in a real browser.
package browsertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/log"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/dbqpg/dbqpg/internal/download"
	"github.com/dbqpg/dbqpg/internal/processtest"
	"github.com/dbqpg/dbqpg/internal/web/bundle"
)

// screenshots is the directory in which they are kept, from the environment; by default they are only looked at.
const screenshots = "DBQPG_SCREENSHOTS"

// programs is where TestMain builds the programs.
var programs string

// browser is shared by all tests: each has a context of its own, with its cookies.
var browser context.Context

func TestMain(m *testing.M) {
	path, err := chromium()
	if err != nil {
		fmt.Fprintf(os.Stderr, "the pages are not tested in a browser: %v\n", err)
		os.Exit(0)
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path),
		chromedp.WindowSize(1400, 900),
		chromedp.Flag("force-device-scale-factor", "1"), chromedp.Flag("enable-precise-memory-info", true),
		chromedp.Flag("ignore-certificate-errors", true)) // the coordinators' authority is their own
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, closed := chromedp.NewContext(allocator)
	if err := chromedp.Do(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "%s does not start: %v\n", path, err)
		os.Exit(1)
	}
	browser = ctx
	status := processtest.Build(m, &programs, "../../../learner", "../../../coordinator")
	closed()
	end()
	os.Exit(status)
}

// chromium finds the browser.
func chromium() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("there is no Chromium here (Debian: apt install chromium)")
}

// page is a tab. Whatever the browser complains of fails the test: errors of scripts, refused and failed requests.
type page struct {
	t   *testing.T
	ctx context.Context
	url string // of the server, ending in a slash

	mu         sync.Mutex
	complaints []string
}

// open opens a tab at an address of a server.
func open(t *testing.T, url, address string, options ...chromedp.ContextOption) *page {
	t.Helper()
	p := &page{t: t, url: url}
	ctx, end := chromedp.NewContext(browser, append(options, chromedp.WithNewBrowserContext(),
		chromedp.WithListener(p.listen))...)
	t.Cleanup(end)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*processtest.Patience)
	t.Cleanup(cancel)
	p.ctx = ctx
	t.Cleanup(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, c := range p.complaints {
			t.Errorf("the browser complains of %s: %s", address, c)
		}
	})
	p.do(chromedp.Navigate(url + address))
	return p
}

// listen notes what the browser complains of.
func (p *page) listen(event any) {
	complaint := ""
	switch e := event.(type) {
	case *cdpruntime.EventExceptionThrown:
		complaint = e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			complaint += " " + e.ExceptionDetails.Exception.Description
		}
	case *cdpruntime.EventConsoleAPICalled:
		if e.Type == cdpruntime.ConsoleAPICalledTypeError || e.Type == cdpruntime.ConsoleAPICalledTypeWarning {
			for _, a := range e.Args {
				complaint += string(a.Value) + a.Description + " "
			}
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			complaint = e.Entry.Text + " " + e.Entry.URL
		}
	}
	if complaint != "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.complaints = append(p.complaints, complaint)
	}
}

// expectComplaint removes the complaints that contain a text, of which there must be one: a test provokes them.
func (p *page) expectComplaint(text string) {
	p.t.Helper()
	if !p.mayComplain(text) {
		p.t.Errorf("the browser does not complain of %q", text)
	}
}

// mayComplain removes the complaints that contain a text, and reports whether there was one.
func (p *page) mayComplain(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := len(p.complaints)
	p.complaints = slices.DeleteFunc(p.complaints, func(c string) bool { return strings.Contains(c, text) })
	return len(p.complaints) < before
}

// do runs actions.
func (p *page) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, actions...); err != nil {
		p.save("failed")
		p.t.Fatalf("%v; the page says: %s", err, p.text())
	}
}

func (p *page) text() string {
	text, _ := chromedp.Run(p.ctx, chromedp.Evaluate[string](`document.body.innerText`)) // it is only for a message
	return text
}

// to moves to another address of the pages without loading them anew.
func (p *page) to(address string) {
	p.t.Helper()
	p.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`location.hash = %q`, strings.TrimPrefix(address, "#"))))
}

// until waits until an expression of JavaScript is true; it is looked at in each frame.
func (p *page) until(expression string) {
	p.t.Helper()
	p.do(chromedp.Poll[chromedp.Void](expression, chromedp.WithPollingTimeout(processtest.Patience/3)))
}

// says waits until the page has a text.
func (p *page) says(text string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`document.body.innerText.includes(%q)`, text))
}

// evaluate returns the value of an expression.
func evaluate[T any](p *page, expression string) T {
	p.t.Helper()
	value, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("%.200s: %v", expression, err)
	}
	return value
}

// fill writes a text into a field, in place of what is there.
func (p *page) fill(field, text string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`document.querySelector(%q) !== null`, field))
	evaluate[chromedp.Void](p, fmt.Sprintf(`{
		const field = document.querySelector(%q);
		field.value = %q;
		field.dispatchEvent(new Event('input', {bubbles: true}));
	}`, field, text))
}

// drawn waits until the charts have been drawn, so many of them.
func (p *page) drawn(charts int) {
	p.t.Helper()
	p.until(fmt.Sprintf(`[...document.querySelectorAll('.plot')].filter((c) => c.dataset.points > 0).length >= %d`,
		charts))
}

// look takes a screenshot, keeps it as an artefact where these are wanted, and fails if there is next to nothing in it.
func (p *page) look(name string) {
	p.t.Helper()
	picture := p.save(name)
	if n := colors(picture); n < 20 {
		p.t.Errorf("the screenshot %s has %d colours: it is empty", name, n)
	}
}

func (p *page) save(name string) image.Image {
	p.t.Helper()
	data, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.t.Errorf("screenshot %s: %v", name, err)
		return image.NewGray(image.Rect(0, 0, 1, 1))
	}
	if directory := os.Getenv(screenshots); directory != "" {
		if err := os.MkdirAll(directory, 0o755); err != nil {
			p.t.Error(err)
		} else if err := os.WriteFile(filepath.Join(directory,
			strings.ReplaceAll(p.t.Name(), "/", "_")+"-"+name+".png"), data, 0o644); err != nil {
			p.t.Error(err)
		}
	}
	picture, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		p.t.Fatal(err)
	}
	return picture
}

// colors counts the colours of a picture.
func colors(picture image.Image) int {
	seen := map[color.Color]bool{}
	for y := picture.Bounds().Min.Y; y < picture.Bounds().Max.Y; y++ {
		for x := picture.Bounds().Min.X; x < picture.Bounds().Max.X; x++ {
			seen[picture.At(x, y)] = true
		}
	}
	return len(seen)
}

// accessible fails for what axe finds wrong with the page as it is.
func (p *page) accessible() {
	p.t.Helper()
	for _, violation := range evaluate[[]string](p,
		axe()+`;axe.run().then((r) => r.violations.map((v) =>
			v.id + ': ' + v.help + ': ' + v.nodes.map((n) => n.html + n.failureSummary).join(' | ')))`) {
		p.t.Errorf("accessibility: %s", violation)
	}
}

var axe = sync.OnceValue(func() string {
	source, err := os.ReadFile(filepath.Join(bundle.Cache(), "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		panic(err) // fetched by needAxe
	}
	return string(source)
})

// needPackages fetches the packages of the tests, or skips the test where they cannot be had.
func needPackages(t *testing.T) {
	t.Helper()
	if err := bundle.Fetch(t.Context(), bundle.Cache(), bundle.Checkers...); errors.Is(err, download.ErrUnavailable) {
		t.Skipf("%v: the network is needed once, for go run ./internal/web/build --fetch", err)
	} else if err != nil {
		t.Fatal(err)
	}
}

// start starts a program.
func start(t *testing.T, program string, arguments ...string) *processtest.Process {
	t.Helper()
	return processtest.Start(t, exec.Command(filepath.Join(programs, program), arguments...))
}

// address returns the address of a program's pages, from its log.
func address(p *processtest.Process) string {
	return p.Expect(`open this address in a browser.* url=(http\S+/)`)[1]
}
