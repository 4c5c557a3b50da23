package chart

import (
	"fmt"

	"golang.org/x/image/font"
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
	plotfont "gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
)

// outlined is a canvas that draws texts as the outlines of their glyphs, so that a figure looks the same wherever it is
// shown or printed, whichever fonts are there.
type outlined struct{ vg.CanvasSizer }

// FillString draws a text from pt on.
func (c outlined) FillString(face plotfont.Face, pt vg.Point, text string) {
	c.Push()
	c.Translate(pt) // a path near its origin keeps its digits
	c.Fill(outline(face, text))
	c.Pop()
}

// outline returns the outlines of a text's glyphs side by side.
func outline(face plotfont.Face, text string) vg.Path {
	var buffer sfnt.Buffer
	units := fixed.Int26_6(face.Face.UnitsPerEm()) // in which glyphs have integers as coordinates
	scale := face.Font.Size / vg.Length(units)
	must := func(err error) {
		if err != nil {
			panic(fmt.Sprintf("chart: outline of %q: %v", text, err)) // of an embedded font
		}
	}
	var path vg.Path
	var advance fixed.Int26_6
	var last sfnt.GlyphIndex
	for i, r := range text {
		glyph, err := face.Face.GlyphIndex(&buffer, r)
		must(err)
		if kern, err := face.Face.Kern(&buffer, last, glyph, units, font.HintingNone); i > 0 && err == nil {
			advance += kern
		}
		at := func(p fixed.Point26_6) vg.Point {
			return vg.Point{X: scale * vg.Length(advance+p.X), Y: -scale * vg.Length(p.Y)} // fonts count downwards
		}
		segments, err := face.Face.LoadGlyph(&buffer, glyph, units, nil)
		must(err)
		for k, s := range segments {
			switch s.Op {
			case sfnt.SegmentOpMoveTo:
				if k > 0 {
					path.Close()
				}
				path.Move(at(s.Args[0]))
			case sfnt.SegmentOpLineTo:
				path.Line(at(s.Args[0]))
			case sfnt.SegmentOpQuadTo:
				path.QuadTo(at(s.Args[0]), at(s.Args[1]))
			case sfnt.SegmentOpCubeTo:
				path.CubeTo(at(s.Args[0]), at(s.Args[1]), at(s.Args[2]))
			}
		}
		if len(segments) > 0 {
			path.Close()
		}
		width, err := face.Face.GlyphAdvance(&buffer, glyph, units, font.HintingNone)
		must(err)
		advance, last = advance+width, glyph
	}
	return path
}
