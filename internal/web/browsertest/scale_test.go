package browsertest

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/chromedp"

	"github.com/dbqpg/dbqpg/internal/processtest"
	"github.com/dbqpg/dbqpg/internal/progress"
	"github.com/dbqpg/dbqpg/internal/web"
)

// figures is the file that TestTenThousand writes its measurements to, from the environment.
const figures = "DBQPG_TEST_FIGURES"

// manyRuns makes a directory of runs, each of so many iterations: 20 learning curves, to whose files all runs have
// links.
func manyRuns(t *testing.T, number, iterations int) string {
	t.Helper()
	directory := t.TempDir()
	const shapes = 20
	for k := range shapes {
		rng := rand.New(rand.NewPCG(1, uint64(k)))
		writeTable(t, filepath.Join(directory, ".shapes", fmt.Sprintf("%d.csv", k)), progress.Columns[progress.Row](),
			iterations, 1, func(column string, i int) float64 {
				return valueOf(rng, column, i, 100+10*float64(k))
			})
		writeTable(t, filepath.Join(directory, ".shapes", fmt.Sprintf("%d.evaluations.csv", k)),
			progress.Columns[progress.Evaluation](), iterations, 50, func(column string, i int) float64 {
				return valueOf(rng, column, i, 100+10*float64(k))
			})
	}
	for i := range number { // groups of 100 seeds
		task, estimator, gamma := [5]string{"Swimmer", "Hopper", "HalfCheetah", "Walker2d", "Ant"}[i/100%5],
			[4]string{"mc", "dbqpg", "uapg", "ubac"}[i/500%4], i/2000%5
		home := filepath.Join(directory, task+"-v5", fmt.Sprintf("npg-%s-s%d_gamma=0.9%d", estimator, i%100+1, gamma))
		if err := os.MkdirAll(home, 0o755); err != nil {
			t.Fatal(err)
		}
		config := fmt.Sprintf("# What is learned\nenv: %s-v5\nalgorithm: npg\nestimator: %s\nseed: %d\niterations: "+
			"%d\ngamma: 0.9%d\nbatch: 16000\nrank: 50\n", task, estimator, i%100+1, iterations, gamma)
		if err := os.WriteFile(filepath.Join(home, "config.yaml"), []byte(config), 0o644); err != nil {
			t.Fatal(err)
		}
		for name, shape := range map[string]string{"progress.csv": "%d.csv", "evaluations.csv": "%d.evaluations.csv"} {
			if err := os.Link(filepath.Join(directory, ".shapes", fmt.Sprintf(shape, 7*i%shapes)),
				filepath.Join(home, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return directory
}

func writeTable(t *testing.T, path string, columns []string, iterations, every int,
	value func(column string, i int) float64) {
	t.Helper()
	var text strings.Builder
	text.WriteString(strings.Join(columns, ",") + "\n")
	for i := 0; i < iterations; i += every {
		text.WriteString(row(columns, i, value))
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

func row(columns []string, i int, value func(column string, i int) float64) string {
	fields := make([]string, len(columns))
	for c, name := range columns {
		fields[c] = fmt.Sprint(value(name, i))
	}
	return strings.Join(fields, ",") + "\n"
}

// valueOf is a number as a run would have it.
func valueOf(rng *rand.Rand, column string, i int, top float64) float64 {
	switch column {
	case "iteration":
		return float64(i)
	case "steps":
		return float64(16000 * (i + 2))
	case "episodes":
		return float64(16 * (i + 1))
	case "seconds_elapsed":
		return 2 * float64(i+1)
	case "return_mean", "mean_action_return":
		return top*(1-math.Exp(-float64(i)/150)) + 10*rng.NormFloat64()
	case "coverage_50", "coverage_90":
		return 0.7 + 0.05*rng.NormFloat64()
	}
	return rng.Float64()
}

// measure returns how long a request takes, with its answer.
func measure(t *testing.T, url string, answer any) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(processtest.Context(t), processtest.Patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	took := time.Since(start)
	if err == nil && response.StatusCode == http.StatusOK {
		err = json.Unmarshal(data, answer)
	}
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v, %d", url, err, response.StatusCode)
	}
	return took
}

// curvesURL asks for the curves of groups.
func curvesURL(base string, queries ...string) string {
	return base + "data/curves?" + url.Values{"q": queries, "axis": {"steps"}, "statistic": {"iqm"}}.Encode()
}

// Ten thousand runs of a thousand iterations: a page of the table at a time, and curves of at most 500 points over all
// runs of a group.
func TestTenThousand(t *testing.T) {
	file := os.Getenv(figures)
	if testing.Short() && file == "" {
		t.Skip("it makes ten thousand runs")
	}
	directory := manyRuns(t, 10_000, 1000)
	server := start(t, "learner", "dashboard", directory, "--http", "127.0.0.1:0")
	base := address(server)
	var table web.Table
	first := measure(t, base+"data/runs?limit=100", &table)
	if table.All != 10_000 || table.Total != 10_000 || len(table.Runs) != 100 {
		t.Fatalf("%d runs in all, %d rows, %d here", table.All, table.Total, len(table.Runs))
	}
	sorted := measure(t, base+"data/runs?limit=100&sort=best&desc=1&q=task%3DHopper-v5", &table)
	if table.Total != 2000 {
		t.Errorf("%d runs of Hopper-v5", table.Total)
	}
	var groups web.Table
	grouped := measure(t, base+"data/runs?limit=100&group=task+estimator+gamma", &groups)
	if len(groups.Groups) != 100 {
		t.Fatalf("%d groups", len(groups.Groups))
	}
	var queries []string
	for _, g := range groups.Groups[:12] {
		queries = append(queries, g.Query)
	}
	var curves struct {
		X      []float64
		Curves []struct {
			Runs  int
			Value []*float64
		}
	}
	cold := measure(t, curvesURL(base, queries[0]), &curves)
	if len(curves.X) > 500 || len(curves.Curves) != 1 || curves.Curves[0].Runs != 100 ||
		len(curves.Curves[0].Value) != len(curves.X) {
		t.Errorf("a group of 100 runs: %d runs at %d places", curves.Curves[0].Runs, len(curves.X))
	}
	warm := measure(t, curvesURL(base, queries[0]), &curves)
	twelve := measure(t, curvesURL(base, queries...), &curves)

	opened := time.Now()
	p := open(t, base, "#/?group=task+estimator+gamma")
	p.says("Swimmer-v5, ubac")
	p.drawn(1)
	seen := time.Since(opened)
	paint := evaluate[float64](p, `performance.getEntriesByName('first-contentful-paint')[0].startTime`)
	p.look("groups")
	if rows := evaluate[int](p, `document.querySelectorAll('tbody tr').length`); rows > 100 {
		t.Errorf("%d rows in the browser", rows)
	}
	if file == "" {
		return
	}
	all := measure(t, curvesURL(base, ""), &curves)
	again := measure(t, curvesURL(base, ""), &curves)
	load, _ := os.ReadFile("/proc/loadavg")
	lines := []string{
		fmt.Sprintf("| first answer after the start, with the scan of all runs | 1 s | %s |", round(first)),
		fmt.Sprintf("| table: a page of it, filtered and sorted | 1 s | %s |", round(sorted)),
		fmt.Sprintf("| table: 100 groups of 100 runs | 1 s | %s |", round(grouped)),
		fmt.Sprintf("| curve of a group of 100 runs, first time, and again | 0.5 s | %s, %s |", round(cold),
			round(warm)),
		fmt.Sprintf("| curves of 12 groups of 100 runs, first time | | %s |", round(twelve)),
		fmt.Sprintf("| one curve of all 10,000 runs, first time, and again | | %s, %s |", round(all), round(again)),
		fmt.Sprintf("| first contentful paint in Chromium | 1 s | %.0f ms |", paint),
		fmt.Sprintf("| page of 100 groups complete, with 5 curves, in a new tab | | %s |", round(seen)),
		fmt.Sprintf("| server's memory, at most (VmHWM) | | %d kB |",
			processtest.Memory(t, server.Cmd.Process.Pid, "VmHWM")>>10),
		fmt.Sprintf("| without the live view: page, script and style, compressed | 350 KB | %.0f KB |",
			float64(compressed(t, base, "", "assets/app.js", "assets/app.css", chunk(t, "chunk-")))/1000),
		fmt.Sprintf("| the live view, loaded when it is opened, compressed | | %.0f KB |",
			float64(compressed(t, base, chunk(t, "play-"), chunk(t, "three-")))/1000),
	}
	lines = append(lines, hour(t)...)
	text := fmt.Sprintf("%s\n\n| | promised | measured |\n|---|---|---|\n%s\n",
		fmt.Sprintf("%d cores, load average %s", runtime.NumCPU(), strings.TrimSpace(string(load))),
		strings.Join(lines, "\n"))
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Log(text)
}

func round(d time.Duration) string { return d.Round(time.Millisecond).String() }

// chunk returns the path of a built chunk.
func chunk(t *testing.T, prefix string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join("..", "dist", prefix+"*.js"))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %v, %v", prefix, found, err)
	}
	return "assets/" + filepath.Base(found[0])
}

// compressed returns the bytes of files as they are sent.
func compressed(t *testing.T, base string, paths ...string) (size int) {
	t.Helper()
	for _, path := range paths {
		request, err := http.NewRequestWithContext(processtest.Context(t), http.MethodGet, base+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Accept-Encoding", "gzip")
		response, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(response.Body)
		response.Body.Close()
		if _, failed := gzip.NewReader(strings.NewReader(string(data))); err != nil || failed != nil {
			t.Fatalf("%s: %v, %v", path, err, failed)
		}
		size += len(data)
	}
	return size
}

// hour shows a page an hour of training with an iteration a second, sixty times as fast, and returns what its memory
// and its pauses were.
func hour(t *testing.T) []string {
	t.Helper()
	directory := t.TempDir()
	columns, rng := progress.Columns[progress.Row](), rand.New(rand.NewPCG(3, 4))
	value := func(column string, i int) float64 { return valueOf(rng, column, i, 300) }
	path := filepath.Join(directory, "progress.csv")
	writeTable(t, path, columns, 60, 1, value)
	if err := os.WriteFile(filepath.Join(directory, "config.yaml"),
		[]byte("env: Swimmer-v5\nalgorithm: npg\nestimator: uapg\nseed: 1\niterations: 3600\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	p := open(t, address(start(t, "learner", "dashboard", directory, "--http", "127.0.0.1:0")),
		"#/run/Swimmer-v5/npg-uapg-s1")
	p.drawn(10)
	evaluate[chromedp.Void](p,
		`window.pauses = [];
		new PerformanceObserver((list) => pauses.push(...list.getEntries().map((e) => e.duration)))
			.observe({entryTypes: ['longtask']})`)
	heap := func() float64 {
		p.do(func(ctx context.Context, target *chromedp.Target) (chromedp.Void, error) {
			_, err := cdp.Call(ctx, target, heapprofiler.CollectGarbage, cdp.Empty{})
			return chromedp.Void{}, err
		})
		return evaluate[float64](p, `performance.memory.usedJSHeapSize / 1e6`)
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	before, middle := heap(), 0.0
	for i := 60; i < 3600; i += 60 {
		var text strings.Builder
		for k := range 60 {
			text.WriteString(row(columns, i+k, value))
		}
		if _, err := file.WriteString(text.String()); err != nil {
			t.Fatal(err)
		}
		p.until(fmt.Sprintf(`document.body.innerText.replaceAll(',', '').includes('%d/3600')`, i+60))
		if i == 1800 {
			middle = heap()
		}
	}
	after := heap()
	return []string{
		fmt.Sprintf("| page of a run that grows by 3,600 rows, 60 at a time: heap after 60, 1,860 and 3,600 rows | it "+
			"does not grow | %.1f, %.1f, %.1f MB |", before, middle, after),
		fmt.Sprintf("| the same: tasks of more than 50 ms in the page, the longest | | %.0f, %.0f ms |",
			evaluate[float64](p, `pauses.length`), evaluate[float64](p, `Math.max(0, ...pauses)`)),
		fmt.Sprintf("| the same: points a chart | 500 to 1,000 | %.0f |",
			evaluate[float64](p, `+document.querySelector('.plot').dataset.points`)),
	}
}
