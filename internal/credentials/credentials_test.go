package credentials

import (
	"bytes"
	"crypto/ecdsa"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/dbqpg/dbqpg/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.DiscardHandler)

func create(t testing.TB, hosts ...string) *Directory {
	t.Helper()
	d, err := Create(filepath.Join(t.TempDir(), "credentials"), hosts, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *Directory) load(t testing.TB, name string) *Credentials {
	t.Helper()
	c, err := Load(filepath.Join(d.path, name), quiet)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Everything that Create makes can be loaded, is what it says, and is its owner's alone.
func TestCreate(t *testing.T) {
	d := create(t, "learner.example", "192.0.2.1")
	for _, role := range proto.Roles() {
		c := d.load(t, string(role))
		if c.Role != role || c.Name != string(role) {
			t.Errorf("%s is %v", role, c)
		}
		leaf := c.certificate.Leaf
		if got, want := fmt.Sprint(strings.Join(leaf.DNSNames, " "), " ", leaf.IPAddresses),
			"localhost learner.example [127.0.0.1 ::1 192.0.2.1]"; serves(role) && got != want {
			t.Errorf("%s is called by %s, want %s", role, got, want)
		}
	}
	err := filepath.WalkDir(d.path, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		if strings.HasSuffix(path, ".tmp") {
			t.Errorf("left over: %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if _, err := Create(d.path, nil, time.Hour); err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("a second time: %v", err)
	}
}

// Files that are missing, exposed, damaged, expired, or of another authority are refused by name.
func TestBadCredentials(t *testing.T) {
	other := create(t)
	for name, c := range map[string]struct {
		spoil func(t *testing.T, d *Directory, at string)
		want  string
		is    error
	}{
		"exposed key": {func(t *testing.T, d *Directory, at string) { chmod(t, at, privateKeyFile, 0o644) },
			"chmod 600 ", ErrExposed},
		"no key": {func(t *testing.T, d *Directory, at string) { write(t, at, privateKeyFile, nil) },
			privateKeyFile, nil},
		"no authority": {func(t *testing.T, d *Directory, at string) { os.Remove(filepath.Join(at, authorityFile)) },
			authorityFile, fs.ErrNotExist},
		"noise for an authority": {func(t *testing.T, d *Directory,
			at string) {
			write(t, at, authorityFile, []byte("x"))
		}, "contains no certificate", nil},
		"another's key": {func(t *testing.T, d *Directory, at string) {
			copyFile(t, filepath.Join(d.path, "learner", privateKeyFile), filepath.Join(at, privateKeyFile))
		}, "private key does not match", nil},
		"another's authority": {func(t *testing.T, d *Directory, at string) {
			copyFile(t, filepath.Join(other.path, "actor", authorityFile), filepath.Join(at, authorityFile))
		}, "does not belong to", nil},
		"expired": {func(t *testing.T, d *Directory, at string) {
			if err := d.Renew([]string{"actor"}, nil, -time.Minute); err != nil {
				t.Fatal(err)
			}
		}, "credentials renew", ErrExpired},
	} {
		t.Run(name, func(t *testing.T) {
			d := create(t)
			at := filepath.Join(d.path, "actor")
			c.spoil(t, d, at)
			_, err := Load(at, quiet)
			if err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
				t.Fatalf("%v, want %q", err, c.want)
			}
		})
	}
}

func chmod(t *testing.T, at, name string, mode fs.FileMode) {
	t.Helper()
	if err := os.Chmod(filepath.Join(at, name), mode); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, at, name string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(at, name), data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Dir(to), filepath.Base(to), data)
}

// However credentials are printed, no secret shows.
func TestNothingSecretIsPrinted(t *testing.T) {
	d := create(t)
	c := d.load(t, "actor")
	secret, err := c.certificate.PrivateKey.(*ecdsa.PrivateKey).Bytes()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	identity := c.Identity()
	for _, v := range []any{c, *c, identity} {
		fmt.Fprintf(&out, "%v %+v %#v %s %x %d\n", v, v, v, v, v, v)
		log.Info("it", "value", v)
	}
	shown := out.String()
	list := fmt.Sprint(secret) //nolint:staticcheck // the numbers
	for _, form := range []string{hex.EncodeToString(secret), strings.Trim(list, "[]"),
		new(big.Int).SetBytes(secret).String()} {
		if strings.Contains(shown, form) {
			t.Errorf("shown: %s", form)
		}
	}
	if !strings.Contains(shown, "actor actor") {
		t.Error("not even the role and name are shown")
	}
}

// A certificate that soon expires is warned of.
func TestExpiresSoon(t *testing.T) {
	var out bytes.Buffer
	d := create(t)
	if _, err := Load(filepath.Join(d.path, "actor"), slog.New(slog.NewTextHandler(&out, nil))); err != nil ||
		!strings.Contains(out.String(), "expires soon") {
		t.Errorf("an hour before: %q, %v", out.String(), err)
	}
	out.Reset()
	if err := d.Renew(nil, nil, 365*day); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(filepath.Join(d.path, "actor"), slog.New(slog.NewTextHandler(&out, nil))); err != nil ||
		out.Len() > 0 {
		t.Errorf("a year before: %q, %v", out.String(), err)
	}
}

// The command line makes, adds, renews, revokes and lists; what is wrong is said.
func TestCommand(t *testing.T) {
	at := filepath.Join(t.TempDir(), "c")
	run := func(want string, args ...string) {
		t.Helper()
		var out bytes.Buffer
		cmd := Command()
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SetArgs(args)
		err := cmd.Execute()
		text := out.String()
		if err != nil {
			text += "error: " + err.Error()
		}
		if !strings.Contains(text, want) {
			t.Errorf("credentials %q: %s\nwithout %q", args, text, want)
		}
	}
	run("error: unknown command \"lst\"", "lst")
	run("error: --days 0: must be", "create", "--out", at, "--days", "0")
	run(`error: host "a:1": give a name or an address alone`, "create", "--out", at, "--host", "a:1")
	run(`error: host "king=a": give`, "create", "--out", at, "--host", "king=a")
	run("coordinator  coordinator  ", "create", "--out", at, "--host", "h1,h2")
	run("already exists", "create", "--out", at)
	run("site-b  ", "add", "site-b", "--role", "actor", "--in", at)
	run("there already is a member site-b", "add", "site-b", "--role", "actor", "--in", at)
	run(`"king"; it is one of`, "add", "x", "--role", "king", "--in", at)
	run(`error: member "../x"`, "add", "../x", "--role", "actor", "--in", at)
	run(`error: member "anyone"`, "add", "anyone", "--role", "actor", "--in", at)
	run(`error: member "authority"`, "add", "authority", "--role", "actor", "--in", at)
	run("[localhost 127.0.0.1 ::1 h3]", "renew", "learner", "--host", "h3", "--host", "nats=h4", "--in", at)
	run("there is no member nobody; there are learner, actor,", "renew", "nobody", "--in", at)
	run("h3", "list", "--in", at)
	run("Copy the new accounts.conf", "revoke", "site-b", "--in", at)
	run("there is no member site-b", "revoke", "site-b", "--in", at)
	run("contains no authority", "list", "--in", filepath.Join(at, "actor"))
	if _, err := os.Stat(filepath.Join(at, "site-b")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a revoked member's directory: %v", err)
	}
}
