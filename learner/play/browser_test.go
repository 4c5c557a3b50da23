package play_test

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/dbqpg/dbqpg/internal/processtest"
	"github.com/dbqpg/dbqpg/internal/sameorigin"
	"github.com/dbqpg/dbqpg/internal/store"
	"github.com/dbqpg/dbqpg/internal/web"
	"github.com/dbqpg/dbqpg/internal/web/bundle"
	"github.com/dbqpg/dbqpg/learner/play"
)

// serveSite serves the pages of all runs in a directory. It returns their URL, and what ends the server before the test
// does.
func serveSite(t testing.TB, directory string) (url string, end func()) {
	t.Helper()
	root, err := store.OpenDirectory(directory)
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	source, live := web.NewDirectory(root), play.New(quiet)
	server := httptest.NewServer(sameorigin.Handler(
		web.Handler(web.Config{Source: source, Live: live.Handler(source), Log: quiet})))
	end = sync.OnceFunc(func() {
		live.Close()
		server.CloseClientConnections() // the pages' streams
		server.Close()
	})
	t.Cleanup(end)
	return server.URL, end
}

// page opens a page in Chromium, whose software draws WebGL. What is wrong in the console fails the test.
func page(t testing.TB, width, height int, url string, flags ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip("Chromium is not installed: apt install chromium")
	}
	var listening sync.WaitGroup
	t.Cleanup(listening.Wait) // once the browser is closed
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"), chromedp.NoSandbox,
		chromedp.WindowSize(width, height))
	options = append(options, flags...)
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, processtest.Patience)
	t.Cleanup(cancel)
	messages := chromedp.Console(ctx)
	listening.Go(func() {
		for m, err := range messages {
			if err != nil { // the browser is closed
				return
			}
			// the server has ended
			lost := strings.Contains(m.Text, "WebSocket connection to") || strings.Contains(m.Text, "net::ERR_")
			if (m.IsException() || m.Type == "error" || m.Type == "warning") && !lost {
				t.Errorf("console: %v", m)
			}
		}
	})
	do(t, ctx, chromedp.Navigate(url))
	return ctx
}

var software = []chromedp.ExecAllocatorOption{
	chromedp.Flag("disable-gpu", false), chromedp.Flag("use-angle", "swiftshader"),
	chromedp.Flag("enable-unsafe-swiftshader", true),
}

func do(t testing.TB, ctx context.Context, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if err := chromedp.Do(ctx, actions...); err != nil {
		t.Fatal(err)
	}
}

// picture returns what an element looks like, and keeps it where DBQPG_SCREENSHOTS says.
func picture(t testing.TB, ctx context.Context, selector, name string) image.Image {
	t.Helper()
	data, err := chromedp.Run(ctx, chromedp.Screenshot(chromedp.CSS(selector)))
	if err != nil {
		t.Fatal(err)
	}
	if directory := os.Getenv("DBQPG_SCREENSHOTS"); directory != "" {
		if err := os.WriteFile(filepath.Join(directory, name+".png"), data, 0o644); err != nil {
			t.Error(err)
		}
	}
	drawn, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return drawn
}

// still returns a picture of what has come to rest: frames that were under way when it was paused are still drawn.
func still(t testing.TB, ctx context.Context, selector, name string) image.Image {
	t.Helper()
	for before := picture(t, ctx, selector, name); ; {
		now := picture(t, ctx, selector, name)
		if different(before, now) == 0 {
			return now
		}
		before = now
	}
}

// text waits until an element has a text.
func text(selector, wanted string) chromedp.Action[chromedp.Void] {
	return until(fmt.Sprintf("document.querySelector(%q)?.textContent.includes(%q)", selector, wanted))
}

// until waits until an expression is true.
func until(expression string) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, t *chromedp.Target) (v chromedp.Void, err error) {
		if _, err = chromedp.Poll[bool](expression, chromedp.WithPollingInterval(50*time.Millisecond),
			chromedp.WithPollingTimeout(0))(ctx, t); err != nil {
			err = fmt.Errorf("%s: %w", expression, err)
		}
		return v, err
	}
}

// drawn waits until what has happened so far is drawn.
var drawn = chromedp.Evaluate[chromedp.Void](
	"new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))",
	chromedp.EvalAwaitPromise)

// steps waits until the first view has had more steps than that.
func steps(n int) chromedp.Action[chromedp.Void] {
	return until(fmt.Sprintf("+document.querySelector('.play-view')?.dataset.steps > %d", n))
}

// colors counts the pixels that are near a color.
func colors(drawn image.Image, red, green, blue int) (n int) {
	for y := drawn.Bounds().Min.Y; y < drawn.Bounds().Max.Y; y++ {
		for x := drawn.Bounds().Min.X; x < drawn.Bounds().Max.X; x++ {
			r, g, b, _ := drawn.At(x, y).RGBA()
			if max(abs(int(r>>8)-red), abs(int(g>>8)-green), abs(int(b>>8)-blue)) < 12 {
				n++
			}
		}
	}
	return n
}

func abs(x int) int { return max(x, -x) }

// robot returns a place on the cheetah's skin, which is brown: nothing else is.
func robot(t testing.TB, drawn image.Image) (x, y float64) {
	t.Helper()
	for y := drawn.Bounds().Max.Y - 1; y >= 0; y-- {
		for x := drawn.Bounds().Max.X - 5; x >= 0; x-- {
			inside := true
			for i := range 5 { // not at its edge
				r, g, b, _ := drawn.At(x+i, y).RGBA()
				inside = inside && r > g+0x1000 && g > b+0x1000
			}
			if inside {
				return float64(x + 2), float64(y)
			}
		}
	}
	t.Fatal("there is no robot in the picture")
	return 0, 0
}

// different reports the share of pixels that differ between two pictures.
func different(a, b image.Image) float64 {
	n := 0
	for y := a.Bounds().Min.Y; y < a.Bounds().Max.Y; y++ {
		for x := a.Bounds().Min.X; x < a.Bounds().Max.X; x++ {
			if a.At(x, y) != b.At(x, y) {
				n++
			}
		}
	}
	return float64(n) / float64(a.Bounds().Dx()*a.Bounds().Dy())
}

// The page draws the robot, which moves, can be stopped and pushed, and stands beside another.
func TestPage(t *testing.T) {
	root := t.TempDir()
	for i, name := range []string{"run", "other"} {
		save(t, filepath.Join(root, name), "HalfCheetah-v4", 3, uint64(7+i))
		save(t, filepath.Join(root, name), "HalfCheetah-v4", 9, uint64(8+i))
		if err := os.WriteFile(filepath.Join(root, name, "config.yaml"), []byte("env: HalfCheetah-v4\n"),
			0o644); err != nil {
			t.Fatal(err)
		}
	}
	url, end := serveSite(t, root)
	ctx := page(t, 500, 500, url+"/#/run/run?tab=watch", software...)
	const stage = ".play-stage"
	do(t, ctx, steps(2), text(".play-head", "policy of iteration 9"), chromedp.KeyEvent("."),
		text(".play-controls", "Play"))
	first := still(t, ctx, stage, "watch")
	if again := picture(t, ctx, stage, "watch-paused"); different(first, again) > 0 {
		t.Errorf("%.1f %% of the pixels change though it is paused", 100*different(first, again))
	}
	if robot := colors(first, 0, 0, 0); robot > first.Bounds().Dx()*first.Bounds().Dy()*9/10 {
		t.Error("nothing is drawn")
	}
	do(t, ctx, chromedp.KeyEvent("]"), chromedp.KeyEvent(" "), steps(20), chromedp.KeyEvent("c"),
		chromedp.KeyEvent(" "))
	if moved := different(first, picture(t, ctx, stage, "watch-contacts")); moved < 0.01 {
		t.Errorf("%.2f %% of the pixels change in 20 steps", 100*moved)
	}

	// Where the mouse takes the robot, it is pulled.
	do(t, ctx, chromedp.KeyEvent("h"), chromedp.KeyEvent("r"),
		until("document.querySelector('.play-view').dataset.steps === '0'"))
	x, y := robot(t, still(t, ctx, stage, "watch-again"))
	corner, err := chromedp.Run(ctx, chromedp.Evaluate[[]float64](
		"(stage => { stage.scrollIntoView(); const box = stage.getBoundingClientRect(); return [box.x, box.y] "+
			"})(document.querySelector('.play-stage'))"))
	if err != nil {
		t.Fatal(err)
	}
	x, y = x+corner[0], y+corner[1]
	do(t, ctx, chromedp.MouseEvent(chromedp.MousePressed, x, y, chromedp.ButtonLeft, chromedp.ClickCount(1)),
		chromedp.MouseEvent(chromedp.MouseMoved, x+120, y-60, chromedp.ButtonLeft))
	do(t, ctx, until("document.querySelector('canvas.pulled') !== null"), drawn)
	if rope := colors(picture(t, ctx, stage, "watch-push"), 213, 94, 0); rope < 100 {
		t.Errorf("the mouse pulls on %d pixels of rope", rope)
	}
	do(t, ctx, chromedp.MouseEvent(chromedp.MouseReleased, x+120, y-60, chromedp.ButtonLeft))

	// Two policies, in the dark, on a telephone.
	do(t, ctx, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}},
		})
		return err
	}), chromedp.EmulateViewport(400, 900), chromedp.Navigate(url+"/?anew#/run/run?tab=watch"), steps(2),
		chromedp.Evaluate[chromedp.Void](`[...document.querySelectorAll('.play-controls button')].at(-1).click()`),
		until("document.querySelectorAll('.play-view[data-steps]').length === 2"),
		until("document.querySelector('.play-view:last-child select[aria-label=run]')?.options.length === 2"), steps(2))
	if axe, err := os.ReadFile(filepath.Join(bundle.Cache(), "node_modules", "axe-core", "axe.min.js")); err == nil {
		do(t, ctx, chromedp.Evaluate[chromedp.Void](string(axe)+";0"))
		violations, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](
			"axe.run(document.querySelector('.play')).then(r => r.violations.flatMap(v => "+
				"v.nodes.map(n => v.id + ': ' + n.html)))", chromedp.EvalAwaitPromise))
		if err != nil || len(violations) > 0 {
			t.Errorf("axe: %v %v", violations, err)
		}
	}
	both := picture(t, ctx, "body", "watch-both")
	if dark := colors(both, 0x14, 0x18, 0x1d); dark < 2000 {
		t.Errorf("%d pixels of the dark sky", dark)
	}
	if wide, err := chromedp.Run(ctx, chromedp.Evaluate[int]("document.documentElement.scrollWidth")); err != nil ||
		wide > 400 {
		t.Errorf("the page is %d pixels wide: %v", wide, err)
	}

	end()
	do(t, ctx, text(".play-note", "The connection is lost"))
}

// Where there is no WebGL the page says so.
func TestPageWithoutWebGL(t *testing.T) {
	root := t.TempDir()
	save(t, filepath.Join(root, "run"), "HalfCheetah-v4", 3, 7)
	if err := os.WriteFile(filepath.Join(root, "run", "config.yaml"), []byte("env: HalfCheetah-v4\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	url, _ := serveSite(t, root)
	do(t, page(t, 400, 500, url+"/#/run/run?tab=watch", chromedp.Flag("disable-3d-apis", true)),
		text(".play-note", "WebGL is not available"))
}
