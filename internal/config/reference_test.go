package config

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/settings.md again")

// generated begins the part of docs/settings.md that is made from the tables, its last.
const generated = "## All settings\n"

// The page of settings is what the tables say.
func TestReference(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "settings.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rest, _, found := strings.Cut(string(page), generated)
	if !found {
		t.Fatalf("%s has no heading %q", path, generated)
	}
	want := rest + settingsReference()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(page) != want {
		t.Errorf("%s is not what the tables say: write it again with go test ./internal/config -update", path)
	}
}

func settingsReference() string {
	var page strings.Builder
	page.WriteString(generated + `
This section is generated from the tables in ` + "`internal/config`" + ` by ` + "`go test ./internal/config -update`" + `. Defaults by
preset and by task are in the tables below.
`)
	write(&page, rows(new(Settings)), defaultOf)

	page.WriteString("\n### By preset\n\n| setting |")
	for _, preset := range presetNames {
		fmt.Fprintf(&page, " `%s` |", preset)
	}
	page.WriteString("\n|---|" + strings.Repeat("---|", len(presetNames)) + "\n")
	for _, s := range rows(new(Settings)) {
		if defaults := defaults(s); slices.ContainsFunc(defaults, func(d string) bool { return d != defaults[0] }) {
			fmt.Fprintf(&page, "| `--%s` | %s |\n", s.flag(), strings.Join(defaults, " | "))
		}
	}

	other := forTask("other-v2", NPG, UAPG, Paper)
	fmt.Fprintf(&page, "\n### By task\n\nIn the preset `paper`, from the authors' configuration. Other tasks have targets `%s`, rank %d and learning rate %s.\n\n"+
		"| task | targets | rank: vanilla, npg, trpo | learning rate: vanilla, npg |\n|---|---|---|---|\n", other.Targets, other.Rank, formatNumber(other.LearningRate))
	for _, family := range families() {
		of := func(algorithm Algorithm, estimator Estimator) Settings {
			return forTask(family+"-v2", algorithm, estimator, Paper)
		}
		vanilla, npg, trpo := of(Vanilla, UAPG), of(NPG, UAPG), of(TRPO, UAPG)
		rate := formatNumber(npg.LearningRate)
		if mc := of(NPG, MonteCarlo); mc.LearningRate != npg.LearningRate {
			rate += " (`mc`: " + formatNumber(mc.LearningRate) + ")"
		}
		fmt.Fprintf(&page, "| %s | `%s` | %d, %d, %d | %s, %s |\n", family, npg.Targets, vanilla.Rank, npg.Rank, trpo.Rank,
			formatNumber(vanilla.LearningRate), rate)
	}
	swimmer, others := forTask("Swimmer-v2", TRPO, UAPG, Best), forTask("Hopper-v2", TRPO, UAPG, Best)
	fmt.Fprintf(&page, "\nIn the preset `best`, Swimmer has gamma %g and GAE lambda %g, all other tasks %g and %g.\n",
		swimmer.Gamma, swimmer.GAELambda, others.Gamma, others.GAELambda)

	page.WriteString("\n## A worker's settings\n\nThose of `learner worker`, in addition to those of the machine.\n")
	var w Worker
	worker := rows(&w)
	setDefaults(worker, map[string]string{"program": "worker"})
	worker = slices.DeleteFunc(worker, func(s value) bool { return s.section.Title == "The machine" })
	write(&page, worker, func(s value) string { return code(s.String()) })
	return page.String()
}

// families returns the tasks that have defaults of their own.
func families() []string {
	all := map[string]bool{}
	for _, l := range layers() {
		for _, family := range strings.Fields(l.When["family"]) {
			all[family] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// write writes a table for each section.
func write(page *strings.Builder, settings []value, defaultOf func(value) string) {
	for i, row := range settings {
		if i == 0 || settings[i-1].section != row.section {
			fmt.Fprintf(page, "\n### %s\n\n| flag | meaning | default |\n|---|---|---|\n", row.section.Title)
		}
		kind := strings.ReplaceAll(row.Kind, "|", `\|`)
		fmt.Fprintf(page, "| `--%s %s` | %s | %s |\n", row.flag(), kind, linked(row.Help), defaultOf(row))
	}
}

// code returns a text as code, "" as "".
func code(text string) string {
	if text == "" {
		return ""
	}
	return "`" + text + "`"
}

// linked makes links of the documents that a line of help names.
func linked(help string) string {
	return regexp.MustCompile(`\(docs/([a-z-]+)\.md`).ReplaceAllString(help, "([$1]($1.md)")
}

var presetNames = []Preset{Paper, Best}

// defaults returns the default of a setting under each preset, of UAPG with the algorithm that the preset is made for,
// or "by task".
func defaults(s value) []string {
	var all []string
	for _, preset := range presetNames {
		one := ""
		for _, family := range families() {
			settings := forTask(family+"-v2", preset.Algorithm(), UAPG, preset)
			all := rows(&settings)
			text := all[slices.IndexFunc(all, func(other value) bool { return other.Name == s.Name })].String()
			if s.Name == "env" || s.Name == "preset" {
				text = ""
			}
			text = code(text)
			if one != "" && text != one {
				text = "by task"
			}
			one = text
		}
		all = append(all, one)
	}
	return all
}

// defaultOf returns the default of a setting, if it is the same under all presets.
func defaultOf(s value) string {
	if s.Name == "preset" {
		return fmt.Sprintf("`%s`; `%s` for -v2 tasks", DefaultPreset("Ant-v5"), DefaultPreset("Ant-v2"))
	}
	defaults := defaults(s)
	if slices.ContainsFunc(defaults, func(d string) bool { return d != defaults[0] }) {
		return "by preset"
	}
	return defaults[0]
}
