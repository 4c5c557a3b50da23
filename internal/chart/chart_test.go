package chart

import (
	"bytes"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func figure() Figure {
	x := []float64{1, 10, 100}
	band := Series{Name: "banded", X: x, Y: []float64{1, 2, 3}, Low: []float64{0.5, 1, 2}, High: []float64{2, 4, 5}, Marks: true}
	gaps := Series{Name: "with gaps", X: x, Y: []float64{math.NaN(), 2, math.Inf(1)}, Color: 12, Dashed: true}
	empty := Series{Name: "empty", X: x, Y: []float64{math.NaN(), math.NaN(), math.NaN()}}
	return Figure{
		{{Title: "linear", X: "n", Y: "value", Series: []Series{band, gaps, empty}}, {Title: "logarithmic", LogX: true, LogY: true, Series: []Series{band}}},
		{{Title: "below zero", LogY: true, Series: []Series{{Name: "mixed", X: x, Y: []float64{-1, 1, 2}}}}, {Title: "nothing", LogX: true, LogY: true}},
		{{Title: "one", LogX: true, LogY: true, Series: []Series{{Name: "one", X: x[:1], Y: []float64{1}, Marks: true}}}},
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
	for _, want := range []string{"<svg", "linear", "logarithmic", "banded", "with gaps"} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("the svg has no %q", want)
		}
	}
	if n := strings.Count(string(svg), ">banded<"); n != 1 {
		t.Errorf("the legend names a line of two panels %d times", n)
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
