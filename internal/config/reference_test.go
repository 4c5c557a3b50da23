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
	for _, section := range new(Settings).table() {
		section.write(&page, setting.defaultOf)
	}

	page.WriteString("\n### By preset\n\n| setting |")
	for _, preset := range presetNames {
		fmt.Fprintf(&page, " `%s` |", preset)
	}
	page.WriteString("\n|---|" + strings.Repeat("---|", len(presetNames)) + "\n")
	for _, s := range new(Settings).all() {
		if defaults := s.defaults(); slices.ContainsFunc(defaults, func(d string) bool { return d != defaults[0] }) {
			fmt.Fprintf(&page, "| `--%s` | %s |\n", s.flag(), strings.Join(defaults, " | "))
		}
	}

	fmt.Fprintf(&page, "\n### By task\n\nIn the preset `paper`, from the authors' configuration. Other tasks have targets `%s`, rank %d and learning rate %s.\n\n"+
		"| task | targets | rank: vanilla, npg, trpo | learning rate: vanilla, npg |\n|---|---|---|---|\n", common.Targets, common.Rank, formatNumber(common.LearningRate))
	for _, family := range slices.Sorted(maps.Keys(tasks)) {
		own := tasks[family]
		rate := formatNumber(own.npg.rate)
		if own.npg.monteCarloRate != 0 {
			rate += " (`mc`: " + formatNumber(own.npg.monteCarloRate) + ")"
		}
		fmt.Fprintf(&page, "| %s | `%s` | %d, %d, %d | %s, %s |\n", family, own.targets, own.vanilla.rank, own.npg.rank, own.trpo.rank,
			formatNumber(own.vanilla.rate), rate)
	}
	swimmer, others := forTask("Swimmer-v2", TRPO, UAPG, Best), forTask("Hopper-v2", TRPO, UAPG, Best)
	fmt.Fprintf(&page, "\nIn the preset `best`, Swimmer has gamma %g and GAE lambda %g, all other tasks %g and %g.\n",
		swimmer.Gamma, swimmer.GAELambda, others.Gamma, others.GAELambda)

	page.WriteString("\n## A worker's settings\n\nThose of `learner worker`, in addition to those of the machine.\n")
	w := newWorker()
	w.table()[0].write(&page, func(s setting) string { return code(s.value.String()) })
	return page.String()
}

// write writes a section's table.
func (s section) write(page *strings.Builder, defaultOf func(setting) string) {
	fmt.Fprintf(page, "\n### %s\n\n| flag | meaning | default |\n|---|---|---|\n", s.title)
	for _, row := range s.settings {
		kind := strings.ReplaceAll(row.value.Type(), "|", `\|`)
		fmt.Fprintf(page, "| `--%s %s` | %s | %s |\n", row.flag(), kind, linked(row.help), defaultOf(row))
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
func (s setting) defaults() []string {
	var all []string
	for _, preset := range presetNames {
		algorithm := NPG
		if preset == Best {
			algorithm = TRPO
		}
		one := ""
		for family := range tasks {
			settings := forTask(family+"-v2", algorithm, UAPG, preset)
			all := settings.all()
			text := all[slices.IndexFunc(all, func(other setting) bool { return other.name == s.name })].value.String()
			if s.name == "env" || s.name == "preset" {
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
func (s setting) defaultOf() string {
	if s.name == "preset" {
		return fmt.Sprintf("`%s`; `%s` for -v2 tasks", DefaultPreset("Ant-v5"), DefaultPreset("Ant-v2"))
	}
	defaults := s.defaults()
	if slices.ContainsFunc(defaults, func(d string) bool { return d != defaults[0] }) {
		return "by preset"
	}
	return defaults[0]
}
