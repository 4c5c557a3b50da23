package config

import (
	"strings"
	"testing"
)

func FuzzParseYAML(f *testing.F) {
	s := forTask("Ant-v2", NPG, UAPG, Paper)
	f.Add([]byte(s.YAML()))
	f.Add([]byte("a: &x [1, *x]\nb: !!binary aGk=\n? {c: d}\n: e\n"))
	f.Add([]byte("--- \n...\n--- 1\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		entries, err := parseYAML(data)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("an error of several lines: %q", err)
			}
			return
		}
		var s Settings
		settings := map[string]value{}
		for _, row := range rows(&s) {
			settings[row.Name] = row
		}
		for _, e := range entries {
			row, ok := settings[e.name]
			if !ok || row.Set(e.text) != nil {
				continue
			}
			// Setting the printed value must give the same value.
			first := row.String()
			if err := row.Set(first); err != nil || row.String() != first {
				t.Errorf("%s given as %q is %q, then %q, %v", e.name, e.text, first, row.String(), err)
			}
		}
	})
}
