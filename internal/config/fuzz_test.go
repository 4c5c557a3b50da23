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
		rows := map[string]setting{}
		for _, row := range s.all() {
			rows[row.name] = row
		}
		for _, e := range entries {
			row, ok := rows[e.name]
			if !ok || row.value.Set(e.text) != nil {
				continue
			}
			// Setting the printed value must give the same value.
			first := row.value.String()
			if err := row.value.Set(first); err != nil || row.value.String() != first {
				t.Errorf("%s given as %q is %q, then %q, %v", e.name, e.text, first, row.value.String(), err)
			}
		}
	})
}
