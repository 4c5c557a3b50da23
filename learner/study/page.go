package study

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dbqpg/dbqpg/internal/atomicfile"
	"github.com/dbqpg/dbqpg/internal/chart"
	"github.com/dbqpg/dbqpg/internal/stats"
	"github.com/dbqpg/dbqpg/learner/device"
)

const (
	pageName  = "README.md"
	notesName = "notes.md"
)

// mark returns the first line of a study's page, which identifies it as generated.
func mark(cmd *cobra.Command) string {
	return fmt.Sprintf("<!-- written by learner study %s; what you have to add goes into %s -->\n", cmd.Name(), notesName)
}

// page is the Markdown that a study writes, with the tables and the figure that are beside it.
type page struct {
	strings.Builder
	tables  []*table
	figures map[string]chart.Figure // by the names of their files
}

func (j *job) newPage(title string) *page {
	p := &page{figures: map[string]chart.Figure{}}
	p.WriteString(mark(j.cmd))
	p.WriteString("# " + title + "\n")
	return p
}

func (p *page) heading(text string) { p.WriteString("\n## " + text + "\n") }

// paragraph wraps its text, so that diffs of a page are readable.
func (p *page) paragraph(format string, args ...any) {
	p.WriteString("\n" + wrap(fmt.Sprintf(format, args...), "") + "\n")
}

func (p *page) item(format string, args ...any) {
	p.WriteString("- " + wrap(fmt.Sprintf(format, args...), "  ") + "\n")
}

// draw shows a figure, which save writes to name.svg and name.png.
func (p *page) draw(name, alt string, figure chart.Figure) {
	p.figures[name] = figure
	fmt.Fprintf(p, "\n![%s](%s.png)\n", alt, name)
}

func (p *page) code(text string) { p.WriteString("\n```\n" + text + "\n```\n") }

func (p *page) table(header []string, rows [][]string) {
	fmt.Fprintf(p, "\n| %s |\n|%s\n", strings.Join(header, " | "), strings.Repeat("---|", len(header)))
	for _, row := range rows {
		fmt.Fprintf(p, "| %s |\n", strings.Join(row, " | "))
	}
}

// wrap breaks a text at about 90 columns, later lines indented.
func wrap(text, indent string) string {
	var out strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case column+1+len(word) > 88:
			out.WriteString("\n" + indent)
			column = len(indent)
		default:
			out.WriteByte(' ')
			column++
		}
		out.WriteString(word)
		column += len(word)
	}
	return out.String()
}

// save adds how the page was made and by what, and the notes if there are any, and writes it, after what is beside it.
func (j *job) save(p *page, how, provenance string) error {
	for _, t := range p.tables {
		if err := t.save(j); err != nil {
			return err
		}
	}
	for name, figure := range p.figures {
		if err := figure.Save(j.path(name)); err != nil {
			return err
		}
	}
	p.heading("How")
	p.code(j.command())
	p.paragraph("%s", how)
	p.paragraph("%s.", provenance)
	notes, err := os.ReadFile(j.path(notesName))
	switch {
	case err == nil:
		p.heading("Notes")
		p.WriteString("\n" + strings.TrimSpace(string(notes)) + "\n")
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("read the notes: %w", err)
	}
	if err := atomicfile.Write(j.path(pageName), []byte(p.String())); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	j.log.Info("written", "page", j.path(pageName))
	return nil
}

// here describes this program and this machine.
func here() string { return device.Versions() + ". " + device.Machine() }

// table is a future file of comma-separated values.
type table struct {
	name   string
	out    bytes.Buffer
	writer *csv.Writer
}

// csv begins a table, which save writes under that name.
func (p *page) csv(name string, columns ...string) *table {
	t := newTable(name, columns...)
	p.tables = append(p.tables, t)
	return t
}

func newTable(name string, columns ...string) *table {
	t := &table{name: name}
	t.writer = csv.NewWriter(&t.out)
	t.row(columns...)
	return t
}

// save writes the table.
func (t *table) save(j *job) error {
	t.writer.Flush()
	if err := atomicfile.Write(j.path(t.name), t.out.Bytes()); err != nil {
		return fmt.Errorf("write %s: %w", t.name, err)
	}
	return nil
}

func (t *table) row(fields ...string) { _ = t.writer.Write(fields) } // to memory, which does not fail

// add adds a row of any values: numbers with the fewest digits that round-trip, NaN as an empty field.
func (t *table) add(fields ...any) {
	var texts []string
	for _, field := range fields {
		switch x := field.(type) {
		case float64:
			texts = append(texts, exact(x))
		case stats.Estimate:
			texts = append(texts, exact(x.Value), exact(x.Low), exact(x.High))
		default:
			texts = append(texts, fmt.Sprint(x))
		}
	}
	t.row(texts...)
}

func exact(x float64) string {
	if math.IsNaN(x) {
		return ""
	}
	return fmt.Sprint(x)
}

// point adds a point with its interval to a line of a figure.
func point(s *chart.Series, x float64, y stats.Estimate) {
	s.X, s.Y, s.Low, s.High = append(s.X, x), append(s.Y, y.Value), append(s.Low, y.Low), append(s.High, y.High)
}

// found is the heading above the paper's claims.
const found = "What the paper found, and what was found here"

// verdict says whether a claim holds.
func verdict(holds bool) string {
	if holds {
		return "**agrees**"
	}
	return "**disagrees**"
}

// figures formats a number for readers, with three significant digits where that takes decimals.
func figures(x float64) string {
	switch {
	case math.IsNaN(x):
		return "-"
	case math.Abs(x) >= 100:
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.3g", x)
}

// estimate formats a value with its interval for readers.
func estimate(e stats.Estimate) string {
	if !(e.Low < e.High) {
		return figures(e.Value)
	}
	return fmt.Sprintf("%s [%s, %s]", figures(e.Value), figures(e.Low), figures(e.High))
}

// signed formats a difference with its interval.
func signed(e stats.Estimate) string {
	text := estimate(e)
	if e.Value > 0 {
		return "+" + text
	}
	return text
}

// plural formats a count of things.
func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
