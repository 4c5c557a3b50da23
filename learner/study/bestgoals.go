package study

import (
	"math"
	"slices"
	"strings"
)

// goal is what the first contender should do against another one: return more, on so many tasks.
type goal struct {
	against contender
	tasks   int
}

var bestGoals = []goal{{contenders[2], 7}, {contenders[3], 5}, {contenders[1], 5}}

// bestShare is the share of their TRPO's processor time that ours should take.
const bestShare = 0.1

// goals holds what is wanted of the first contender against the runs.
func (r *lineup) goals(p *page) {
	p.heading("Goals, and what was found")
	us, budget := contenders[0], budgets[0]
	rows := make([][]string, len(bestTasks))
	for i, t := range bestTasks {
		rows[i] = []string{t.name}
	}
	head := []string{"task"}
	p.WriteString("\n")
	for _, g := range bestGoals {
		var above, beyond int
		var missing []string
		settled := true // by as many runs as an interval takes
		for i, t := range bestTasks {
			ours, theirs := r.finals(t.name, us.algorithm, budget).returned, r.finals(t.name, g.against.algorithm, budget).returned
			text := "missing"
			if len(ours) == 0 || len(theirs) == 0 {
				missing = append(missing, t.name)
			} else {
				lead := ahead(ours, theirs)
				text = signed(lead)
				settled = settled && min(len(ours), len(theirs)) >= enough
				if lead.Value > 0 {
					above++
				}
				if lead.Low > 0 {
					beyond++
				}
			}
			rows[i] = append(rows[i], text)
		}
		head = append(head, us.name+" − "+g.against.name)
		p.item("%s above %s on %d of %d tasks: %s; it is on %d of %d compared, on %d beyond the scatter of the runs.%s", us.name, g.against.name, g.tasks,
			len(bestTasks), outcomeOf(above, beyond, len(missing), g.tasks, settled), above, len(bestTasks)-len(missing), beyond, notCompared(missing))
	}
	within := 0
	var missing []string
	settled, theirs := true, contenders[2]
	for i, t := range bestTasks {
		our, their := r.finals(t.name, us.algorithm, budget).cpu, r.finals(t.name, theirs.algorithm, budget).cpu
		share := middle(our) / middle(their)
		text := figures(share)
		if math.IsNaN(share) {
			text, missing = "missing", append(missing, t.name)
		} else {
			settled = settled && min(len(our), len(their)) >= enough
			if share <= bestShare {
				within++
			}
		}
		rows[i] = append(rows[i], text)
	}
	p.item("In a tenth of the processor time of %s, on all tasks: %s; on %d of %d compared.%s", theirs.name,
		outcomeOf(within, within, len(missing), len(bestTasks), settled), within, len(bestTasks)-len(missing), notCompared(missing))
	p.table(append(head, "share of its processor time"), rows)
	p.paragraph("Differences of interquartile means of the returns after %s steps, of %d runs or more each with 95%% bootstrap intervals.", million(budget), enough)
}

// outcomeOf says whether a goal is reached, as it is on so many tasks, on some of them beyond the scatter of the runs, with others
// missing, unless there are too few runs to settle it.
func outcomeOf(have, beyond, missing, want int, settled bool) string {
	switch {
	case settled && beyond >= want:
		return "**reached**"
	case settled && have >= want:
		return "**so far, but within the scatter of the runs**"
	case have >= want:
		return "**so far, but on too few runs**"
	case settled && have+missing < want:
		return "**not reached**"
	case have+missing < want:
		return "**not so far, on too few runs**"
	}
	return "**not known yet**"
}

func notCompared(missing []string) string {
	if len(missing) == 0 {
		return ""
	}
	return " Not compared, because runs are missing: " + strings.Join(missing, ", ") + "."
}

// variants writes the final returns of what is not a contender, beside the runs of the same seeds that it is a variant of: if its
// seeds were chosen because these did badly, a comparison with all of them would count chance as a gain.
func (r *lineup) variants(p *page) {
	budget := budgets[0]
	var rows [][]string
	for _, t := range bestTasks {
		var names []string
		for _, e := range r.runs {
			other := !slices.ContainsFunc(contenders, func(c contender) bool { return c.algorithm == e.algorithm })
			if e.task == t.name && other && !slices.Contains(names, e.algorithm) {
				names = append(names, e.algorithm)
			}
		}
		for _, name := range names {
			of := variantOf(name)
			runs := r.of(t.name, name)
			var with, without finals
			for _, e := range runs {
				f, complete := e.final(budget)
				if !complete {
					continue
				}
				with.add(f)
				if f, complete = r.finalOfSeed(t.name, of.algorithm, e.seed, budget); complete {
					without.add(f)
				}
			}
			row := []string{t.name, name, summarise(with.returned, len(runs)), "missing", "missing"}
			if n := len(with.returned); n > 0 {
				row[4] = figures(middle(with.cpu)) + " s"
				if len(without.returned) == n {
					row[3] = signed(ahead(with.returned, without.returned)) + " (" + of.name + ")"
				}
			}
			rows = append(rows, row)
		}
	}
	p.heading("What the parts contribute")
	if len(rows) == 0 {
		p.paragraph("No variants were run.")
		return
	}
	p.table([]string{"task", "variant", "return", "− the same seeds of", "processor time"}, rows)
	p.paragraph("Runs that differ from UAPG, or from MC, in the settings that their names have, after %s steps, and the difference of "+
		"interquartile means to the runs of the same seeds without. Single seeds scatter by thousands.", million(budget))
}

// variantOf returns the contender that a variant is compared with: that which its name begins with, or else the first.
func variantOf(name string) contender {
	for _, c := range contenders {
		if !c.theirs && strings.HasPrefix(name, c.algorithm+"_") {
			return c
		}
	}
	return contenders[0]
}

// finalOfSeed returns what the run of one seed has reached, if there is one and it has come so far.
func (r *lineup) finalOfSeed(task, algorithm string, seed uint64, budget float64) (final, bool) {
	runs := r.of(task, algorithm)
	i := slices.IndexFunc(runs, func(e *evaluated) bool { return e.seed == seed })
	if i < 0 {
		return final{}, false
	}
	return runs[i].final(budget)
}
