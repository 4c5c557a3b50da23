package study

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/internal/stats"
)

func TestJudge(t *testing.T) {
	up, down, slightly, hardly := stats.Estimate{Value: 5, Low: 1, High: 9}, stats.Estimate{Value: -5, Low: -9, High: -1},
		stats.Estimate{Value: 2, Low: -1, High: 5}, stats.Estimate{Value: -2, Low: -5, High: 1}
	few := ahead([]float64{5, 6, 7, 8}, []float64{1, 2, 3, 4, 5})
	for _, c := range []struct {
		relation   relation
		difference stats.Estimate
		large      float64
		want       outcome
	}{
		{above, up, 10, agrees}, {above, down, 10, contradicts}, {above, slightly, 10, leans}, {above, hardly, 10, undecided},
		{alike, slightly, 6, agrees}, {alike, hardly, 6, agrees}, {alike, slightly, 4, undecided}, {alike, hardly, 4, undecided},
		{alike, up, 8, undecided}, {alike, down, 8, undecided}, {alike, up, 1, contradicts}, {alike, down, 1, contradicts}, {alike, up, 10, agrees},
		{above, few, 10, unknown}, {alike, few, 10, unknown},
	} {
		if got := c.relation.judge(c.difference, c.large); got != c.want {
			t.Errorf("relation %d, difference %+v, large is %g: %v, want %v", c.relation, c.difference, c.large, got, c.want)
		}
	}
}

func TestSummary(t *testing.T) {
	of := func(outcomes ...outcome) []finding {
		var all []finding
		for _, o := range outcomes {
			all = append(all, finding{outcome: o})
		}
		return all
	}
	for _, c := range []struct {
		findings []finding
		want     string
	}{
		{nil, "not compared"},
		{of(unknown, unknown), "fewer than five runs of each cannot tell"},
		{of(agrees), "**agrees**, in the one comparison."},
		{of(agrees, unknown, unknown), "**agrees**, in the one comparison; in 2 more, fewer than five runs of each cannot tell."},
		{of(agrees, agrees), "**agrees**, in all 2 comparisons."},
		{of(agrees, leans), "**leans that way**: every difference is as claimed, 1 of 2 beyond"},
		{of(leans, leans), "**undecided**: as claimed in 2 of 2 comparisons"},
		{of(agrees, undecided, leans), "**undecided**: as claimed in 2 of 3 comparisons"},
		{of(contradicts), "**disagrees**, in the one comparison."},
		{of(agrees, contradicts, undecided), "**agrees in part**: in 1 of 3 comparisons, 1 within the scatter of the runs, and disagrees in 1."},
		{of(contradicts, undecided, leans), "**agrees nowhere**, in 3 comparisons, 2 within the scatter of the runs, and disagrees in 1."},
	} {
		if got := summary(claim{}, c.findings); !strings.HasPrefix(got, c.want) {
			t.Errorf("summary %q, want %q", got, c.want)
		}
	}
}

// made returns results with known returns: six runs a group, three alike and another three.
func made() *results {
	of := func(env string, v variant, first, second []float64) *group {
		curves := [][]float64{first, first, first, second, second, second}
		return &group{setting: setting{env: env, algorithm: "npg"}, variant: v, seeds: []uint{1, 2, 3, 4, 5, 6}, returns: curves, updating: []float64{1}}
	}
	return &results{last: 2, groups: []*group{
		of("A", monteCarlo, []float64{0, 10, 20}, []float64{0, 10, 10}),
		of("A", bayesian, []float64{0, 100, 100}, []float64{0, 80, 80}),
		of("B", monteCarlo, []float64{1, 2, 2}, []float64{1, 2, 4}),
		of("B", bayesian, []float64{1, 3, 3}, []float64{1, 1, 2}),
	}}
}

func TestCheck(t *testing.T) {
	found := made().check(claim{relation: above, pairs: [][2]string{{"dbqpg", "mc"}, {"uapg", "mc"}}})
	if len(found) != 2 {
		t.Fatalf("%d findings, want one a task: UAPG was not run", len(found))
	}
	if none := made().check(claim{relation: above, pairs: [][2]string{{"dbqpg", "mc"}}, algorithms: []string{"trpo"}}); len(none) > 0 {
		t.Errorf("with NPG a claim of TRPO is compared: %+v", none)
	}
	// On A the final returns are 15 and 10, and 100 and 80; over all iterations 10, 20/3, and 200/3, 160/3.
	if f := found[0]; f.final.Value != 77.5 || f.final.Low < 65 || f.final.High > 90 || f.overall.Value != 60-25.0/3 || f.outcome != agrees {
		t.Errorf("on A %+v", f)
	}
	// On B they are 2 and 3, and 3 and 1.5.
	if f := found[1]; f.final.Value != -0.25 || f.outcome != undecided {
		t.Errorf("on B %+v", f)
	}
}

// On each task 0 is the return of the first iteration and 1 the best variant's final one.
func TestAggregates(t *testing.T) {
	all := made().aggregates()
	// On A: MC 15/90, 10/90; DBQPG 100/90, 80/90. On B the best is MC's 2.5: MC 1/1.5, 2/1.5; DBQPG 2/1.5, 0.5/1.5.
	if len(all) != 1 || fmt.Sprint(all[0].tasks) != "[A B]" || all[0].runs != 6 {
		t.Fatalf("aggregates %+v", all)
	}
	// Of the four scores of each the middle two count.
	for i, want := range []float64{0.5 * (15./90 + 1/1.5), 0.5 * (80./90 + 100./90)} {
		if got := stats.Pooled(stats.IQM)(all[0].scores[i]); math.Abs(got-want) > 1e-12 {
			t.Errorf("%s scores %g, want %g", all[0].variants[i].name, got, want)
		}
	}
	one := made()
	one.groups = one.groups[:2]
	if all := one.aggregates(); len(all) > 0 {
		t.Errorf("over one task: %+v", all)
	}
	// A task without all variants is left out, and no task has more runs of a variant than another.
	some := made()
	some.groups = append(some.groups, &group{setting: setting{env: "C", algorithm: "npg"}, variant: monteCarlo, seeds: []uint{1}, returns: [][]float64{{0, 1, 1}}})
	few := some.groups[3]
	few.seeds, few.returns = few.seeds[:2], few.returns[:2]
	all = some.aggregates()
	if len(all) != 1 || fmt.Sprint(all[0].tasks) != "[A B]" || all[0].runs != 2 || len(all[0].scores[0][0]) != 2 {
		t.Errorf("aggregates %+v", all)
	}
	for task := range all[0].tasks { // the best of the runs that count has 1
		if best := max(stats.IQM(all[0].scores[0][task]), stats.IQM(all[0].scores[1][task])); math.Abs(best-1) > 1e-12 {
			t.Errorf("the best variant's score on %s is %g", all[0].tasks[task], best)
		}
	}
	// A variant that one task alone has, be it the first, leaves no task out.
	control := made()
	control.groups = append(control.groups, &group{setting: control.groups[0].setting, variant: aware, seeds: []uint{1}, returns: [][]float64{{0, 1, 1}}})
	all = control.aggregates()
	if len(all) != 1 || fmt.Sprint(all[0].tasks) != "[A B]" || len(all[0].variants) != 2 {
		t.Errorf("aggregates with a control on one task %+v", all)
	}
}

func TestGroupSort(t *testing.T) {
	g := group{seeds: []uint{3, 1, 2}, steps: [][]float64{{3}, {1}, {2}}, returns: [][]float64{{30}, {10}, {20}}}
	g.sort()
	if got := fmt.Sprint(g.seeds, g.steps, g.returns); got != "[1 2 3] [[1] [2] [3]] [[10] [20] [30]]" {
		t.Error(got)
	}
}

// Variants differ in what their names say; where their presets differ in more, the page says so.
func TestConfounders(t *testing.T) {
	r := made()
	if all := r.confounders(r.groups[0].setting); len(all) > 0 {
		t.Errorf("of runs that differ in nothing else %v", all)
	}
	r.groups[0].unnamed = map[string]string{"gamma": "0.99", "learning_rate": "0.0002", "rank": "140"}
	r.groups[1].unnamed = map[string]string{"gamma": "0.99", "learning_rate": "0.002"} // its rank is named
	r.groups = append(r.groups, &group{setting: r.groups[0].setting, variant: aware, unnamed: r.groups[1].unnamed})
	const want = "[learning_rate 0.0002 (MC), 0.002 (DBQPG; UAPG)]"
	if got := fmt.Sprint(r.confounders(r.groups[0].setting)); got != want {
		t.Errorf("confounders %s, want %s", got, want)
	}
	// The authors give Monte Carlo a learning rate of its own on HumanoidStandup, and on no other task.
	path := filepath.Join(t.TempDir(), "queue.yaml")
	write(t, path, "- {env: [Hopper-v2, HumanoidStandup-v2], algorithm: npg, preset: authors, estimator: [mc, uapg]}\n"+
		"- {env: HumanoidStandup-v2, algorithm: npg, preset: authors, estimator: mc, learning_rate: 1, label: MC at 1}\n"+
		"- {env: HumanoidStandup-v2, algorithm: npg, preset: authors, estimator: mc, gamma: 0.9, learning_rate: 1, label: discounted}\n"+
		"- {env: Hopper-v2, algorithm: npg, preset: authors, estimator: mc, gamma: 0.9, label: discounted}\n") // but with the preset's rate here
	members, err := (&compareOptions{queue: path}).queued(&job{cmd: comparisons[0].command(), out: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	queued := new(results)
	for _, m := range members {
		queued.groups = append(queued.groups, &group{setting: m.setting, variant: m.variant, unnamed: m.unnamed(members)})
	}
	if all := queued.confounders(queued.groups[0].setting); len(all) > 0 {
		t.Errorf("on Hopper %v", all)
	}
	got := fmt.Sprint(queued.confounders(setting{env: "HumanoidStandup-v2", algorithm: "npg"}))
	if want := "[learning_rate 0.000231 (MC), 0.0021 (UAPG), 1 (discounted)]"; got != want {
		t.Errorf("on HumanoidStandup %s, want %s", got, want)
	}
}

// Of a learning curve each point is the runs' interquartile mean.
func TestBand(t *testing.T) {
	curve := band(made().groups[0].smooth(2))
	want := []stats.Estimate{{}, {Value: 5, Low: 5, High: 5}, {Value: 12.5, Low: 10, High: 15}}
	for i := range want {
		if curve[i] != want[i] {
			t.Errorf("point %d is %+v, want %+v", i, curve[i], want[i])
		}
	}
	few := group{returns: made().groups[0].returns[1:5]}
	if point := band(few.smooth(2))[2]; point.Value != 12.5 || !math.IsNaN(point.Low) || !math.IsNaN(point.High) {
		t.Errorf("of four runs the last point is %+v, want no interval", point)
	}
}
