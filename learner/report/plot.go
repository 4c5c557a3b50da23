package report

import (
	"fmt"
	"image/color"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/dbqpg/dbqpg/learner/study/stats"
)

// Estimators is the order of rows and legends.
var Estimators = []string{"MC", "DBQPG", "UAPG"}

var colors = map[string]color.RGBA{
	"MC":    {R: 0x7f, G: 0x7f, B: 0x7f, A: 0xff},
	"DBQPG": {R: 0x1f, G: 0x77, B: 0xb4, A: 0xff},
	"UAPG":  {R: 0xd6, G: 0x27, B: 0x28, A: 0xff},
}

// Plot draws the curves against iterations, reference curves dashed and pale, and
// saves the figure as base.svg and base.png.
func Plot(base, title string, runs, reference []Curve) error {
	p := plot.New()
	p.Title.Text = title
	p.X.Label.Text = "iteration"
	p.Y.Label.Text = "mean episode return"
	p.Legend.YOffs = 2 * vg.Inch // below the curves that learn, above those that do not
	p.Add(plotter.NewGrid())
	for _, estimator := range Estimators {
		if err := addLines(p, reference, estimator, " (authors' runs)", 0x70, []vg.Length{vg.Points(3), vg.Points(2)}); err != nil {
			return err
		}
		if err := addLines(p, runs, estimator, "", 0xff, nil); err != nil {
			return err
		}
	}
	for _, suffix := range []string{".svg", ".png"} {
		if err := p.Save(8*vg.Inch, 5*vg.Inch, base+suffix); err != nil {
			return fmt.Errorf("report: saving %s: %w", filepath.Base(base+suffix), err)
		}
	}
	return nil
}

func addLines(p *plot.Plot, curves []Curve, estimator, note string, alpha uint8, dashes []vg.Length) error {
	named := false
	for _, curve := range curves {
		if curve.Estimator != estimator {
			continue
		}
		points := make(plotter.XYs, len(curve.Returns))
		for i, r := range stats.RunningMean(curve.Returns, 10) {
			points[i] = plotter.XY{X: float64(i + 1), Y: r}
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return fmt.Errorf("report: curve %s seed %s: %w", estimator, curve.Seed, err)
		}
		c := colors[estimator]
		line.Color = color.NRGBA{R: c.R, G: c.G, B: c.B, A: alpha}
		line.Dashes = dashes
		p.Add(line)
		if !named {
			p.Legend.Add(estimator+note, line)
			named = true
		}
	}
	return nil
}
