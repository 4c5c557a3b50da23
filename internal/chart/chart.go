// Package chart draws figures that can be printed: lines with markers and confidence bands, in panels side by side, in
// colours that nearly everybody can tell apart.
package chart

import (
	"bytes"
	"fmt"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
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
	Marks     bool      // a marker at each point, not at some
	Dashed    bool      // dashed and pale
	Thin      bool      // thin, pale and without markers, beneath the others: one run of several
	Color     int       // index of the colour and the marker, which repeat after ten
}

// Panel is one pair of axes.
type Panel struct {
	Title, X, Y string
	LogX, LogY  bool // logarithmic axes, which show only positive values
	Alone       bool // its vertical range is not the row's
	Series      []Series
}

// Figure consists of rows of panels, with the legend beside them. Each row has a common vertical range. A panel without
// anything leaves its place empty.
type Figure [][]Panel

// palette is that of Okabe and Ito ("Color Universal Design", 2008), its yellow, which is too light for lines,
// replaced, and two more.
var palette = []color.NRGBA{
	{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xe6, 0x9f, 0x00, 0xff}, {0xcc, 0x79,
		0xa7, 0xff},
	{0x56, 0xb4, 0xe9, 0xff}, {0x00, 0x00, 0x00, 0xff}, {0x8c, 0x6d, 0x31, 0xff}, {0x7f, 0x7f, 0x7f, 0xff}, {0x33, 0x22,
		0x88, 0xff},
}

// Gray is the colour of the reference with which others are compared.
const Gray = 8

// markers tell lines apart without colours.
var markers = []draw.GlyphDrawer{
	draw.CircleGlyph{}, draw.SquareGlyph{}, draw.TriangleGlyph{}, draw.RingGlyph{}, draw.BoxGlyph{},
	draw.PyramidGlyph{}, diamond{filled: true}, draw.CrossGlyph{}, draw.PlusGlyph{}, diamond{},
}

// diamond is a marker.
type diamond struct{ filled bool }

// DrawGlyph draws it.
func (d diamond) DrawGlyph(c *draw.Canvas, style draw.GlyphStyle, pt vg.Point) {
	r := 1.2 * style.Radius
	var path vg.Path
	path.Move(vg.Point{X: pt.X, Y: pt.Y + r})
	path.Line(vg.Point{X: pt.X + r, Y: pt.Y})
	path.Line(vg.Point{X: pt.X, Y: pt.Y - r})
	path.Line(vg.Point{X: pt.X - r, Y: pt.Y})
	path.Close()
	if d.filled {
		c.Fill(path)
		return
	}
	c.SetLineStyle(draw.LineStyle{Color: style.Color, Width: vg.Points(0.5)})
	c.Stroke(path)
}

func init() {
	plot.DefaultFont = font.Font{Typeface: "Liberation", Variant: "Sans"}
}

const (
	panelWidth   = 3.8 * vg.Inch
	panelHeight  = 3.0 * vg.Inch
	singleWidth  = 6.2 * vg.Inch // of a single panel
	singleHeight = 4.2 * vg.Inch
	padding      = 0.15 * vg.Inch
	bandAlpha    = 0x30
	dashedAlpha  = 0xa0
	thinAlpha    = 0x60
	someMarks    = 8 // markers on a line without Marks
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
	legend.Top, legend.Left, legend.Padding, legend.ThumbnailWidth = true, true, vg.Points(3), vg.Points(28)
	plots := make([][]*plot.Plot, len(f))
	for i, row := range f {
		plots[i] = make([]*plot.Plot, columns)
		for j, panel := range row {
			if panel.Title == "" && panel.Series == nil {
				continue
			}
			p, err := panel.plot(legend)
			if err != nil {
				return nil, nil, fmt.Errorf("draw %s: %w", panel.Title, err)
			}
			plots[i][j] = p
		}
		shareY(plots[i][:len(row)], row)
		for j, panel := range row {
			if plots[i][j] != nil {
				scale(&plots[i][j].X, panel.LogX)
				scale(&plots[i][j].Y, panel.LogY)
			}
		}
	}
	return plots, &legend.Legend, nil
}

// shareY gives the plots of a row a common vertical range, so that they can be compared.
func shareY(plots []*plot.Plot, row []Panel) {
	low, high := math.Inf(1), math.Inf(-1)
	for j, p := range plots {
		if p != nil && !row[j].Alone {
			low, high = min(low, p.Y.Min), max(high, p.Y.Max)
		}
	}
	for j, p := range plots {
		if p != nil && !row[j].Alone {
			p.Y.Min, p.Y.Max = low, high
		}
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
	legendWidth := legend.Rectangle(draw.Canvas{}).Size().X + 2*padding
	canvas, err := draw.NewFormattedCanvas(width+legendWidth, height, format)
	if err != nil {
		return nil, err
	}
	whole := draw.New(outlined{canvas})
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
	for _, thin := range []bool{true, false} {
		for _, s := range p.Series {
			if s.Thin != thin {
				continue
			}
			if err := p.addLine(out, s, legend); err != nil {
				return nil, fmt.Errorf("%s: %w", s.Name, err)
			}
		}
	}
	return out, nil
}

// scale gives an axis its ticks, and makes it logarithmic, if it has a range.
func scale(axis *plot.Axis, logarithmic bool) {
	axis.Tick.Marker = roundTicks{}
	if logarithmic && 0 < axis.Min && axis.Min < axis.Max && !math.IsInf(axis.Max, 0) {
		axis.Scale, axis.Tick.Marker = plot.LogScale{}, roundLogTicks{}
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
	ink := palette[s.Color%len(palette)]
	line.Color, line.Width = ink, vg.Points(1.3)
	switch pale := ink; {
	case s.Thin:
		pale.A = thinAlpha
		line.Color, line.Width = pale, vg.Points(0.4)
		out.Add(line)
		return nil
	case s.Dashed:
		pale.A = dashedAlpha
		line.Color, line.Dashes = pale, []vg.Length{vg.Points(3), vg.Points(2)}
	}
	marks, err := plotter.NewScatter(s.marked(points))
	if err != nil {
		return err
	}
	marks.Color, marks.Shape, marks.Radius = line.Color, markers[s.Color%len(markers)], vg.Points(2.4)
	out.Add(line, marks)
	legend.add(s.Name, line, marks)
	return nil
}

// marked returns the points with a marker, at other places for each colour, so that lines that meet can be told apart.
func (s Series) marked(points plotter.XYs) plotter.XYs {
	if s.Marks || len(points) <= someMarks {
		return points
	}
	var some plotter.XYs
	apart := float64(len(points)) / someMarks
	for k := range someMarks {
		phase := float64(s.Color%len(palette)) / float64(len(palette))
		some = append(some, points[int((float64(k)+phase)*apart)])
	}
	return some
}

// points returns the points that the panel's axes can show.
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
