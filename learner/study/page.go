package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/dbqpg/dbqpg/internal/atomicfile"
	"github.com/dbqpg/dbqpg/internal/chart"
	"github.com/dbqpg/dbqpg/internal/stats"
)

// block is a part of a page: a heading, a figure or a table, and a text.
type block struct {
	Heading string
	Where   map[string][]string // labels of the series that are shown
	CSV     string              // of a table: the file that has it, in place of the page
	Figure  *figure
	Table   *table
	Claims  *table // a comparison of each of the experiment's claims
	Scores  *scores
	Text    string
}

// table summarises groups of series, a row each; or compares pairs, a row for every pair in every group that has both.
type table struct {
	Rows    []string // labels; heading=label has another heading
	By      []string // further labels that tell rows apart
	Across  string   // a label whose values have columns of their own
	Columns []string // those values; none: all, in the order of the series
	Between string   // the label that tells the two of a pair apart
	Pairs   [][2]string
	Cells   []cell
}

// cell is a column of a table.
type cell struct {
	Head  string
	Of    string // a quantity
	As    string // a statistic; each, reached, tenths or line; of pairs: difference, paired, probability or ratio
	Label string // instead: a label
	Fact  string // instead: a fact of the record
	Unit  string
	// Interval says that a file has the ends of the interval too. Digits are a file's significant digits, 0: as few as
	// round-trip.
	Interval bool
	Digits   int
	Scale    float64 // of the numbers that readers see; 0: 1

	// Of pairs:
	Mean   string // of a difference: iqm or mean; of a ratio: one of spreads
	Strata string // the label within whose values series are compared
	Margin float64
	Claim  string // above or alike: the claimed relation of the first to the second
}

// page is the Markdown that a study writes, with the tables and the figures that are beside it.
type page struct {
	strings.Builder
	job        *job
	quantities map[string]quantity
	figures    map[string]chart.Figure // by the names of their files
	tables     map[string][][]string
}

// report writes the page with its tables and figures.
func (e *experiment) report(j *job, all []*series, facts []string) error {
	p := &page{job: j, quantities: e.Quantities, figures: map[string]chart.Figure{}, tables: map[string][][]string{}}
	p.WriteString(mark(j.cmd))
	p.WriteString("# " + e.Title + "\n")
	p.text(e.Question)
	for _, s := range all {
		if s.record != nil && s.record.Note != "" {
			facts = append(facts, s.record.Note)
		}
	}
	for _, b := range e.Page {
		p.block(e, b, matching(all, b.Where))
	}
	p.heading("How")
	p.WriteString("\n```\n" + j.command() + "\n```\n")
	p.text(e.Method)
	facts, _ = counted(facts)
	p.text(strings.Join(append(facts, provenance(all)+"."), "\n\n"))
	return p.save()
}

// block writes a block, unless there are no series for it, or no pairs.
func (p *page) block(e *experiment, b block, all []*series) {
	if len(all) == 0 {
		return
	}
	var rows [][]string
	if b.Table != nil {
		if rows = b.Table.rows(p, all, b.CSV != ""); len(rows) == 1 && b.CSV == "" {
			return
		}
	}
	if b.CSV != "" {
		p.tables[b.CSV] = rows
		return
	}
	if b.Heading != "" {
		p.heading(b.Heading)
	}
	switch {
	case rows != nil:
		p.table(rows)
	case b.Figure != nil:
		name := cmp.Or(b.Figure.Name, e.name)
		p.figures[name] = b.Figure.draw(p, all)
		fmt.Fprintf(p, "\n![%s](%s.png)\n", b.Figure.Alt, name)
	case b.Claims != nil:
		for _, c := range e.Claims {
			b.Claims.check(p, matching(all, c.Where), c)
		}
	case b.Scores != nil:
		b.Scores.write(p, all)
	}
	p.text(b.Text)
}

func (p *page) heading(text string) { p.WriteString("\n## " + text + "\n") }

// text writes paragraphs, wrapped so that diffs of a page are readable.
func (p *page) text(text string) {
	for paragraph := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		if paragraph != "" {
			p.WriteString("\n" + wrap(paragraph) + "\n")
		}
	}
}

// wrap breaks a text at about 100 columns.
func wrap(text string) string {
	var out strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case column+1+len(word) > 100:
			out.WriteByte('\n')
			column = 0
		default:
			out.WriteByte(' ')
			column++
		}
		out.WriteString(word)
		column += len(word)
	}
	return out.String()
}

// table writes a table, whose first row is its header.
func (p *page) table(rows [][]string) {
	fmt.Fprintf(p, "\n| %s |\n|%s\n", strings.Join(rows[0], " | "), strings.Repeat("---|", len(rows[0])))
	for _, row := range rows[1:] {
		fmt.Fprintf(p, "| %s |\n", strings.Join(row, " | "))
	}
}

// save writes the tables and figures, and then the page.
func (p *page) save() error {
	for name, rows := range p.tables {
		if err := writeCSV(p.job.path(name), rows); err != nil {
			return err
		}
	}
	for name, figure := range p.figures {
		if err := figure.Save(p.job.path(name)); err != nil {
			return err
		}
	}
	notes, err := os.ReadFile(p.job.path(notesName))
	switch {
	case err == nil:
		p.heading("Notes")
		p.WriteString("\n" + strings.TrimSpace(string(notes)) + "\n")
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("read the notes: %w", err)
	}
	if err := atomicfile.Write(p.job.path(pageName), []byte(p.String())); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	p.job.log.Info("written", "page", p.job.path(pageName))
	if asked, err := p.job.cmd.Flags().GetBool("json"); err != nil || !asked {
		return nil // only some studies have the flag
	}
	objects := map[string][]map[string]any{}
	for name, rows := range p.tables {
		for _, row := range rows[1:] {
			object := map[string]any{}
			for i, text := range row {
				object[rows[0][i]] = text
				if x, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(x) && !math.IsInf(x, 0) {
					object[rows[0][i]] = x
				}
			}
			objects[strings.TrimSuffix(name, ".csv")] = append(objects[strings.TrimSuffix(name, ".csv")], object)
		}
	}
	encoder := json.NewEncoder(p.job.cmd.OutOrStdout())
	encoder.SetIndent("", "  ")
	return encoder.Encode(objects)
}

// rows returns the table, with its header, for a file or for the page.
func (t *table) rows(p *page, all []*series, file bool) [][]string {
	header, labels := heads(t.Rows)
	columns, pairs := t.Columns, t.Pairs
	switch {
	case t.Between == "":
		pairs = [][2]string{{}}
	case file:
		header = append(header, "one", "other")
	default:
		header = append(header, "pair")
	}
	if t.Across == "" {
		columns = []string{""}
	} else if columns == nil {
		for _, group := range grouped(all, t.Across) {
			columns = append(columns, group[0].labels[t.Across])
		}
	}
	for _, column := range columns {
		for _, c := range t.Cells {
			header = append(header, strings.Trim(column+": "+c.Head, ": "))
			if file && c.Interval {
				header = append(header, c.Head+"_low", c.Head+"_high")
			}
		}
	}
	claimed := !file && t.Cells[0].Claim != ""
	if claimed {
		header = append(header, "the claim")
	}
	rows := [][]string{header}
	for _, pair := range pairs {
		for _, group := range grouped(all, slices.Concat(labels, t.By)...) {
			var row []string
			for _, label := range labels {
				row = append(row, group[0].labels[label])
			}
			var other []*series
			if t.Between != "" {
				other = matching(group, map[string][]string{t.Between: {pair[1]}})
				group = matching(group, map[string][]string{t.Between: {pair[0]}})
				if len(group) == 0 || len(other) == 0 {
					continue
				}
				row = append(row, t.pair(group[0], other[0], file)...)
			}
			for _, column := range columns {
				of := group
				if t.Across != "" {
					of = matching(group, map[string][]string{t.Across: {column}})
				}
				for _, c := range t.Cells {
					row = append(row, c.texts(p, of, other, file)...)
				}
			}
			if claimed {
				c := t.Cells[0]
				q := p.quantities[c.Of]
				row = append(row, c.judge(c.of(q, group, other), c.margin(q, other)))
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// pair names two that are compared.
func (t *table) pair(one, other *series, file bool) []string {
	if file {
		return []string{one.labels[t.Between], other.labels[t.Between]}
	}
	sign := " − "
	if t.Cells[0].As == "ratio" {
		sign = " / "
	}
	return []string{one.label("name") + sign + other.label("name")}
}

// heads returns the headings and the labels of a table's rows, label or heading=label.
func heads(rows []string) (heads, labels []string) {
	for _, row := range rows {
		head, label, renamed := strings.Cut(row, "=")
		if !renamed {
			label = head
		}
		heads, labels = append(heads, head), append(labels, label)
	}
	return heads, labels
}

// texts formats a cell, which compares the group with another unless that is nil; a file has its value, and the ends of
// its interval if they are asked for.
func (c cell) texts(p *page, group, other []*series, file bool) []string {
	if len(group) == 0 {
		return []string{"-"}
	}
	if c.Label != "" {
		return []string{group[0].labels[c.Label]}
	}
	if c.Fact != "" {
		if group[0].record == nil {
			return []string{"-"}
		}
		return []string{fact(group[0].record.Facts[c.Fact])}
	}
	if format := formats[c.As]; format != nil {
		return []string{format(c, group, p.quantities[c.Of])}
	}
	var e stats.Estimate
	if other == nil {
		e = statistics[c.As](group, p.quantities[c.Of])
	} else if e = c.of(p.quantities[c.Of], group, other); !file {
		return []string{c.compared(e)}
	}
	if !file {
		scale := cmp.Or(c.Scale, 1)
		text := estimate(stats.Estimate{Value: scale * e.Value, Low: scale * e.Low, High: scale * e.High})
		return []string{text + c.Unit}
	}
	digits := cmp.Or(c.Digits, -1)
	texts := []string{rounded(e.Value, digits)}
	if c.Interval {
		texts = append(texts, rounded(e.Low, digits), rounded(e.High, digits))
	}
	return texts
}

// fact formats a fact of a record.
func fact(x any) string {
	if x, ok := x.(float64); ok && x < 1e5 {
		return figures(x)
	}
	return fmt.Sprint(x)
}

// formats are cells that are no single estimate.
var formats = map[string]func(c cell, group []*series, q quantity) string{
	"each": func(c cell, group []*series, q quantity) string { // each run's, with its seed
		var all []string
		for _, s := range group {
			text := figures(cmp.Or(c.Scale, 1)*stats.Mean(q.values(s))) + c.Unit
			if seed := s.labels["seed"]; seed != "" {
				text += " (" + seed + ")"
			}
			all = append(all, text)
		}
		return strings.Join(all, ", ")
	},
	"reached": func(c cell, group []*series, q quantity) string { // the median, and how many come there
		x := q.pooled(group)
		reached := slices.DeleteFunc(slices.Clone(x), func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 1) })
		count, median := fmt.Sprintf("(%d of %d)", len(reached), len(x)), middle(x)
		switch {
		case math.IsNaN(median):
			return "-"
		case math.IsInf(median, 1):
			return "not by most " + count
		}
		return figures(cmp.Or(c.Scale, 1)*median) + c.Unit + " " + count
	},
	"tenths": func(c cell, group []*series, q quantity) string { // the mean, and the extremes of ten parts' means
		x := known(q.pooled(group))
		if len(x) == 0 {
			return "not recorded"
		}
		var parts []float64
		n := min(10, len(x))
		for k := range n {
			parts = append(parts, stats.Mean(x[k*len(x)/n:(k+1)*len(x)/n]))
		}
		scale := cmp.Or(c.Scale, 1)
		return fmt.Sprintf("%s%s (%s to %s)", figures(scale*stats.Mean(x)), c.Unit,
			figures(scale*slices.Min(parts)), figures(scale*slices.Max(parts)))
	},
	"line": func(c cell, group []*series, q quantity) string { // of least squares, over the label samples
		var x []float64
		for _, s := range group {
			samples, _ := number(s.labels["samples"])
			x = append(x, samples)
		}
		line := stats.Fit(x, q.pooled(group))
		return fmt.Sprintf("%s ms + %s µs a sample, R² = %.4f", figures(1e3*line.Intercept), figures(1e6*line.Slope),
			line.R2)
	},
}

// claim is a statement of the paper, which the first cell of some pairs decides.
type claim struct {
	Paper string // as a sentence
	Claim string // above or alike
	Pairs [][2]string
	Where map[string][]string
}

// check writes the comparison of a claim.
func (t *table) check(p *page, all []*series, c claim) {
	pairs := *t
	pairs.Pairs, pairs.Cells = c.Pairs, slices.Clone(t.Cells)
	pairs.Cells[0].Claim = c.Claim
	rows := pairs.rows(p, all, false)
	var outcomes []string
	for _, row := range rows[1:] {
		outcomes = append(outcomes, row[len(row)-1])
	}
	p.text(fmt.Sprintf("The paper: %s Here: %s.", c.Paper, summary(outcomes)))
	if len(rows) > 1 {
		p.table(rows)
	}
}

// margin returns the difference below which two are alike: a tenth of the second's, unless the cell has its own.
func (c cell) margin(q quantity, second []*series) float64 {
	if c.Margin > 0 {
		return c.Margin
	}
	return 0.1 * math.Abs(stats.IQM(q.pooled(second)))
}
