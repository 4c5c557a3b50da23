// Package chart draws figures: lines with confidence bands, in panels side by side.
package chart

import (
	"bytes"
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/dbqpg/dbqpg/internal/atomicfile"
)

// Series is one line. Points that are not finite are omitted.
type Series struct {
	Name      string // in the legend, which lists each name once
	X, Y      []float64
	Low, High []float64 // the band around the line; nil: none
	Marks     bool      // a dot at each point
	Dashed    bool      // dashed and pale
	Color     int       // index in the palette, which repeats after ten
}

// Panel is one pair of axes.
type Panel struct {
	Title, X, Y string
	LogX, LogY  bool // logarithmic axes, which show only positive values
	Series      []Series
}

// Figure consists of rows of panels, with the legend beside them. Each row has a common vertical range.
type Figure [][]Panel

// palette is that of matplotlib, whose colours most people can distinguish.
var palette = []color.NRGBA{
	{0x1f, 0x77, 0xb4, 0xff}, {0xd6, 0x27, 0x28, 0xff}, {0x2c, 0xa0, 0x2c, 0xff}, {0xff, 0x7f, 0x0e, 0xff}, {0x94, 0x67, 0xbd, 0xff},
	{0x8c, 0x56, 0x4b, 0xff}, {0xe3, 0x77, 0xc2, 0xff}, {0x17, 0xbe, 0xcf, 0xff}, {0xbc, 0xbd, 0x22, 0xff}, {0x7f, 0x7f, 0x7f, 0xff},
}

// Gray is the colour of the reference with which others are compared.
const Gray = 9

const (
	panelWidth   = 3.8 * vg.Inch
	panelHeight  = 3.0 * vg.Inch
	singleWidth  = 6.2 * vg.Inch // of a single panel
	singleHeight = 4.2 * vg.Inch
	legendWidth  = 1.4 * vg.Inch
	padding      = 0.15 * vg.Inch
	bandAlpha    = 0x30
	dashedAlpha  = 0x70
)

// Save writes the figure to base.svg and base.png.
func (f Figure) Save(base string) error {
	plots, legend, err := f.plots()
	if err != nil {
		return err
	}
	for _, format := range []string{"svg", "png"} {
		data, err := render(plots, legend, format)
		if err == nil {
			err = atomicfile.Write(base+"."+format, data)
		}
		if err != nil {
			return fmt.Errorf("save %s.%s: %w", base, format, err)
		}
	}
	return nil
}

// plots returns the panels' plots, in rows of equal length, nil where there is no panel, and the legend of them all.
func (f Figure) plots() ([][]*plot.Plot, *plot.Legend, error) {
	columns := 0
	for _, row := range f {
		columns = max(columns, len(row))
	}
	legend := &legend{Legend: plot.NewLegend(), names: map[string]bool{}}
	plots := make([][]*plot.Plot, len(f))
	for i, row := range f {
		plots[i] = make([]*plot.Plot, columns)
		for j, panel := range row {
			p, err := panel.plot(legend)
			if err != nil {
				return nil, nil, fmt.Errorf("draw %s: %w", panel.Title, err)
			}
			plots[i][j] = p
		}
		shareY(plots[i][:len(row)])
		for j, panel := range row {
			scale(&plots[i][j].X, panel.LogX)
			scale(&plots[i][j].Y, panel.LogY)
		}
	}
	return plots, &legend.Legend, nil
}

// shareY gives the plots of a row a common vertical range, so that they can be compared.
func shareY(row []*plot.Plot) {
	low, high := math.Inf(1), math.Inf(-1)
	for _, p := range row {
		low, high = min(low, p.Y.Min), max(high, p.Y.Max)
	}
	for _, p := range row {
		p.Y.Min, p.Y.Max = low, high
	}
}

// legend lists each line once, however many panels show it.
type legend struct {
	plot.Legend
	names map[string]bool
}

func (l *legend) add(name string, thumbnails ...plot.Thumbnailer) {
	if !l.names[name] {
		l.names[name] = true
		l.Add(name, thumbnails...)
	}
}

// render draws rows of plots onto one canvas, the legend to their right.
func render(plots [][]*plot.Plot, legend *plot.Legend, format string) ([]byte, error) {
	rows, columns := len(plots), len(plots[0])
	width, height := vg.Length(columns)*panelWidth, vg.Length(rows)*panelHeight
	if rows == 1 && columns == 1 {
		width, height = singleWidth, singleHeight
	}
	canvas, err := draw.NewFormattedCanvas(width+legendWidth, height, format)
	if err != nil {
		return nil, err
	}
	whole := draw.New(canvas)
	tiles := draw.Tiles{Rows: rows, Cols: columns, PadX: padding, PadY: padding,
		PadTop: padding, PadBottom: padding, PadLeft: padding, PadRight: padding}
	for i, row := range plot.Align(plots, tiles, draw.Crop(whole, 0, -legendWidth, 0, 0)) {
		for j, area := range row {
			if plots[i][j] != nil {
				plots[i][j].Draw(area)
			}
		}
	}
	legend.Draw(draw.Crop(whole, width, 0, 0, -2*padding))
	var out bytes.Buffer
	_, err = canvas.WriteTo(&out)
	return out.Bytes(), err
}

// plot draws the bands first, so that they do not cover any lines.
func (p Panel) plot(legend *legend) (*plot.Plot, error) {
	out := plot.New()
	out.Title.Text, out.X.Label.Text, out.Y.Label.Text = p.Title, p.X, p.Y
	out.Add(plotter.NewGrid())
	for _, s := range p.Series {
		if err := p.addBand(out, s); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	for _, s := range p.Series {
		if err := p.addLine(out, s, legend); err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return out, nil
}

// scale makes an axis logarithmic, if it has a range.
func scale(axis *plot.Axis, logarithmic bool) {
	if logarithmic && 0 < axis.Min && axis.Min < axis.Max && !math.IsInf(axis.Max, 0) {
		axis.Scale, axis.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
}

func (p Panel) addBand(out *plot.Plot, s Series) error {
	if s.Low == nil {
		return nil
	}
	outline := p.points(s.X, s.High)
	low := p.points(s.X, s.Low)
	for i := len(low) - 1; i >= 0; i-- {
		outline = append(outline, low[i])
	}
	if len(outline) == 0 {
		return nil
	}
	band, err := plotter.NewPolygon(outline)
	if err != nil {
		return err
	}
	c := palette[s.Color%len(palette)]
	c.A = bandAlpha
	band.Color, band.Width = c, 0
	out.Add(band)
	return nil
}

func (p Panel) addLine(out *plot.Plot, s Series, legend *legend) error {
	points := p.points(s.X, s.Y)
	if len(points) == 0 {
		return nil
	}
	line, err := plotter.NewLine(points)
	if err != nil {
		return err
	}
	line.Color, line.Width = palette[s.Color%len(palette)], vg.Points(1.3)
	if s.Dashed {
		pale := palette[s.Color%len(palette)]
		pale.A = dashedAlpha
		line.Color, line.Dashes = pale, []vg.Length{vg.Points(3), vg.Points(2)}
	}
	out.Add(line)
	thumbnails := []plot.Thumbnailer{line}
	if s.Marks {
		dots, err := plotter.NewScatter(points)
		if err != nil {
			return err
		}
		dots.Color, dots.Shape, dots.Radius = palette[s.Color%len(palette)], draw.CircleGlyph{}, vg.Points(2.2)
		out.Add(dots)
		thumbnails = append(thumbnails, dots)
	}
	legend.add(s.Name, thumbnails...)
	return nil
}

// points returns those that can be drawn on the panel's axes.
func (p Panel) points(x, y []float64) plotter.XYs {
	var points plotter.XYs
	for i := range x {
		drawable := !math.IsNaN(y[i]) && !math.IsInf(y[i], 0) && (!p.LogY || y[i] > 0) && (!p.LogX || x[i] > 0)
		if drawable {
			points = append(points, plotter.XY{X: x[i], Y: y[i]})
		}
	}
	return points
}
