package credentials

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Whatever is in one of a member's files, the member is refused or can be used; no error shows a secret.
func FuzzLoad(f *testing.F) {
	d, err := Create(filepath.Join(f.TempDir(), "credentials"), nil, time.Hour)
	if err != nil {
		f.Fatal(err)
	}
	from := filepath.Join(d.path, "learner")
	names := []string{authorityFile, certificateFile, privateKeyFile, accountsFile}
	whole := map[string][]byte{}
	for i, name := range names {
		if whole[name], err = os.ReadFile(filepath.Join(from, name)); err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), whole[name])
		f.Add(uint8(i), []byte("-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n"))
	}
	secret := strings.Split(string(whole[privateKeyFile]), "\n")[1]
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		directory := t.TempDir()
		for i, name := range names {
			content := whole[name]
			if i == int(which)%len(names) {
				content = data
			}
			if err := os.WriteFile(filepath.Join(directory, name), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c, err := Load(directory, quiet)
		if err != nil {
			if strings.Contains(err.Error(), secret) {
				t.Fatalf("the error shows a secret: %v", err)
			}
			return
		}
		if c.Identity() == nil || c.Client() == nil || c.Server() == nil {
			t.Fatal("what was loaded cannot be used")
		}
	})
}

// Whatever is in the list of members, the directory is refused or can be gone on with.
func FuzzMembers(f *testing.F) {
	d, err := Create(filepath.Join(f.TempDir(), "credentials"), nil, time.Hour)
	if err != nil {
		f.Fatal(err)
	}
	path := filepath.Join(d.path, authorityDirectory, membersFile)
	members, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(members)
	f.Add([]byte(`[{"name":"../x","role":"actor"}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := Open(d.path)
		if err != nil {
			return
		}
		for _, m := range d.members {
			if filepath.Dir(filepath.Join(d.path, m.Name)) != filepath.Clean(d.path) {
				t.Fatalf("a member's directory is %q", m.Name)
			}
		}
	})
}
