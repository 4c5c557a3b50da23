package chart

import (
	"bytes"
	"image/png"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
)

func figure() Figure {
	x := []float64{1, 10, 100}
	band := Series{Name: "banded", X: x, Y: []float64{1, 2, 3}, Low: []float64{0.5, 1, 2}, High: []float64{2, 4, 5},
		Marks: true}
	gaps := Series{Name: "with gaps", X: x, Y: []float64{math.NaN(), 2, math.Inf(1)}, Color: 12, Dashed: true}
	empty := Series{Name: "empty", X: x, Y: []float64{math.NaN(), math.NaN(), math.NaN()}}
	return Figure{
		{{Title: "linear", X: "n", Y: "value", Series: []Series{band, gaps, empty}},
			{Title: "logarithmic", LogX: true, LogY: true, Series: []Series{band}}},
		{{Title: "below zero", LogY: true, Series: []Series{{Name: "mixed", X: x, Y: []float64{-1, 1, 2}}}},
			{Title: "nothing", LogX: true, LogY: true}},
		{{Title: "one", LogX: true, LogY: true,
			Series: []Series{{Name: "one", X: x[:1], Y: []float64{1}, Marks: true}}}},
	}
}

func TestSave(t *testing.T) {
	base := filepath.Join(t.TempDir(), "figure")
	if err := figure().Save(base); err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(base + ".svg")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(svg), "<svg") || strings.Contains(string(svg), "<text") ||
		strings.Contains(string(svg), "font-") {
		t.Error("the svg is none, or needs fonts")
	}
	data, err := os.ReadFile(base + ".png")
	if err != nil {
		t.Fatal(err)
	}
	image, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if size := image.Bounds().Size(); size.X < 600 || size.Y < 400 {
		t.Errorf("a picture of %v", size)
	}
}

// The same figure gives the same bytes, so that a study run again changes no file.
func TestSaveRepeats(t *testing.T) {
	var files [2][]byte
	for i := range files {
		base := filepath.Join(t.TempDir(), "figure")
		if err := figure().Save(base); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(base + ".svg")
		if err != nil {
			t.Fatal(err)
		}
		files[i] = data
	}
	if !bytes.Equal(files[0], files[1]) {
		t.Error("two drawings differ")
	}
}

func TestSaveNowhere(t *testing.T) {
	base := filepath.Join(t.TempDir(), "missing", "figure")
	if err := figure().Save(base); err == nil || !strings.Contains(err.Error(), base+".svg") {
		t.Errorf("error %v, want one that names the file", err)
	}
}

// A line of two panels is in the legend once, thin ones are not.
func TestLegend(t *testing.T) {
	f := figure()
	f[0][0].Series = append(f[0][0].Series, Series{Name: "a run", X: []float64{1, 2}, Y: []float64{1, 2}, Thin: true})
	all := &legend{Legend: plot.NewLegend(), names: map[string]bool{}}
	for _, row := range f {
		for _, panel := range row {
			if _, err := panel.plot(all); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := slices.Sorted(maps.Keys(all.names)); !slices.Equal(got, []string{"banded", "mixed", "one", "with gaps"}) {
		t.Errorf("the legend has %q", got)
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		ticker    plot.Ticker
		low, high float64
		want      string
	}{
		{roundTicks{}, -3.1, 347, "0 100 200 300"},
		{roundTicks{}, 0, 999, "0 200 400 600 800"},
		{roundTicks{}, 2000, 3e6, "0.5M 1M 1.5M 2M 2.5M 3M"},
		{roundTicks{}, -0.12, 0.31, "-0.1 0 0.1 0.2 0.3"},
		{roundTicks{}, 0, 15e4, "0 50k 100k 150k"},
		{roundTicks{}, 7, 7, "7"},
		{roundLogTicks{}, 5000, 45000, "5000 10k 20k"},
		{roundLogTicks{}, 0.5, 2000, "1 10 100 1000"},
	} {
		var labels []string
		for _, tick := range c.ticker.Ticks(c.low, c.high) {
			if tick.Label != "" {
				labels = append(labels, tick.Label)
			}
		}
		if got := strings.Join(labels, " "); got != c.want {
			t.Errorf("ticks from %g to %g: %q, want %q", c.low, c.high, got, c.want)
		}
	}
}

// The outlines of a text are as wide as the plots' layout takes it to be: its last glyph ends there, but for the space
// beside it.
func TestOutline(t *testing.T) {
	face := font.DefaultCache.Lookup(plot.DefaultFont, 20)
	path := outline(face, "AVA 10")
	right := vg.Length(0)
	for _, part := range path {
		right = max(right, part.Pos.X)
	}
	if width := face.Width("AVA 10"); right > width || right < width-2 {
		t.Errorf("outlines reach to %v, the text to %v", right, width)
	}
}
