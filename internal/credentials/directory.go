package credentials

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dbqpg/dbqpg/internal/atomicfile"
	"github.com/dbqpg/dbqpg/proto"
	"github.com/dbqpg/dbqpg/proto/bus"
)

// The authority's directory.
const (
	authorityDirectory = "authority"
	authorityKeyFile   = "ca-key.pem"
	membersFile        = "members.json"
)

// member is the authority's record of a member. None of it is secret.
type member struct {
	identity
	Hosts   []string  `json:"hosts,omitempty"` // names and addresses of its servers
	Expires time.Time `json:"expires"`         // of its certificate
}

// Directory is a directory of credentials with its authority.
type Directory struct {
	path      string
	authority *authority
	members   []member
	revoked   map[string]int // how often a member of that name was revoked
}

// Create makes a directory with a new authority and a member of each role, named like the role. Its servers are reached
// under localhost and the hosts, of which ROLE=HOST is for one role's servers only. Certificates are valid for the
// duration valid. The directory must not exist.
func Create(path string, hosts []string, valid time.Duration) (*Directory, error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s already exists: add to it with credentials add, or choose another directory", path)
	}
	if err := checkHosts(hosts); err != nil {
		return nil, err
	}
	now := time.Now()
	authority, key, err := newAuthority(now)
	if err != nil {
		return nil, err
	}
	d := &Directory{path: path, authority: authority, revoked: map[string]int{}}
	if err := d.writeAll(authorityDirectory,
		map[string][]byte{authorityFile: authority.pem, authorityKeyFile: key}); err != nil {
		return nil, err
	}
	for _, role := range proto.Roles() {
		if err := d.add(string(role), role, hosts, now.Add(valid)); err != nil {
			return nil, err
		}
	}
	return d, d.save()
}

// Open reads a directory of [Create]. It requires the authority's private key.
func Open(path string) (*Directory, error) {
	at := filepath.Join(path, authorityDirectory)
	certificate, err := read(at, authorityFile)
	if err != nil {
		return nil, fmt.Errorf("%s contains no authority: %w", path, err)
	}
	key, err := readSecret(at, authorityKeyFile)
	if err != nil {
		return nil, fmt.Errorf("the authority in %s: %w", path, err)
	}
	d := &Directory{path: path}
	if d.authority, err = parseAuthority(certificate, key); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	data, err := read(at, membersFile)
	if err == nil {
		err = json.Unmarshal(data, &d.members)
	}
	for _, m := range d.members {
		err = errors.Join(err, m.check())
	}
	if err == nil {
		d.revoked, err = readRevoked(at)
	}
	if err != nil {
		return nil, fmt.Errorf("the members in %s: %w", path, err)
	}
	return d, nil
}

// check validates a member, whose name is a directory that Revoke removes and an account of the NATS servers.
func (m *member) check() error {
	return errors.Join(checkName(m.Name), proto.CheckRole(m.Role), checkHosts(m.Hosts))
}

// Add makes the directory of another member.
func (d *Directory) Add(name string, role proto.Role, hosts []string, valid time.Duration) error {
	if err := errors.Join(checkName(name), proto.CheckRole(role), checkHosts(hosts)); err != nil {
		return err
	}
	if d.find(name) >= 0 {
		return fmt.Errorf("there already is a member %s", name)
	}
	if err := d.add(name, role, hosts, time.Now().Add(valid)); err != nil {
		return err
	}
	return d.save()
}

// Revoke removes a member and its directory, and makes NATS servers and coordinators refuse its certificates. The name
// can be added again.
func (d *Directory) Revoke(name string) error {
	i := d.find(name)
	if i < 0 {
		return d.unknown(name)
	}
	d.members = slices.Delete(d.members, i, i+1)
	d.revoked[name]++
	return errors.Join(d.save(), os.RemoveAll(filepath.Join(d.path, name)))
}

// Renew makes new certificates and private keys for the named members, or for all if none is named. If hosts are given
// they replace the previous ones.
func (d *Directory) Renew(names, hosts []string, valid time.Duration) error {
	if err := checkHosts(hosts); err != nil {
		return err
	}
	if len(names) == 0 {
		for _, m := range d.members {
			names = append(names, m.Name)
		}
	}
	for _, name := range names {
		i := d.find(name)
		if i < 0 {
			return d.unknown(name)
		}
		m := &d.members[i]
		if len(hosts) > 0 {
			m.Hosts = hostsOf(m.Role, hosts)
		}
		if err := d.certify(m, time.Now().Add(valid)); err != nil {
			return err
		}
	}
	return d.save()
}

// add makes a member with a certificate.
func (d *Directory) add(name string, role proto.Role, hosts []string, until time.Time) error {
	m := member{identity: identity{Name: name, Role: role}, Hosts: hostsOf(role, hosts)}
	if role != proto.RoleNATS {
		m.Revocations = d.revoked[name]
	} else if err := d.writeAll(name, map[string][]byte{serverFile: []byte(serverConfig)}); err != nil {
		return err
	}
	if err := d.certify(&m, until); err != nil {
		return err
	}
	d.members = append(d.members, m)
	return nil
}

// certify makes a member's certificate.
func (d *Directory) certify(m *member, until time.Time) error {
	if last := d.authority.certificate.NotAfter; until.After(last) {
		until = last
	}
	certificate, key, err := d.authority.issue(*m, time.Now(), until)
	if err != nil {
		return err
	}
	m.Expires = until.UTC().Truncate(time.Second)
	return d.writeAll(m.Name,
		map[string][]byte{authorityFile: d.authority.pem, certificateFile: certificate, privateKeyFile: key})
}

// save writes the list of members, and for the servers those that they admit or refuse.
func (d *Directory) save() error {
	var users []bus.User
	for _, m := range d.members {
		users = append(users, bus.User{Name: m.Name, Role: m.Role, URI: m.uri().String()})
	}
	accounts, err := bus.Accounts(users)
	if err != nil {
		return err
	}
	revoked, err := json.MarshalIndent(d.revoked, "", "  ")
	if err != nil {
		return fmt.Errorf("the revoked members: %w", err)
	}
	files := map[string][]byte{revokedFile: append(revoked, '\n'), accountsFile: []byte(accounts)}
	for _, m := range d.members {
		if serves(m.Role) {
			if err := d.writeAll(m.Name, files); err != nil {
				return err
			}
		}
	}
	members, err := json.MarshalIndent(d.members, "", "  ")
	if err != nil {
		return fmt.Errorf("the list of members: %w", err)
	}
	files[membersFile] = append(members, '\n')
	return d.writeAll(authorityDirectory, files)
}

// serverConfig is the configuration of a NATS server started in its member's directory.
const serverConfig = `# nats-server -c nats-server.conf, in this directory.
listen: "127.0.0.1:4222" # 0.0.0.0:4222 lets other machines in
max_payload: 8MB
jetstream { max_mem: 256MB, max_file: 1MB, store_dir: "jetstream" }
tls { cert_file: "tls.pem", key_file: "tls-key.pem", ca_file: "ca.pem", verify_and_map: true, min_version: "1.3" }
include "accounts.conf"
`

// writeAll replaces files of a directory, each atomically.
func (d *Directory) writeAll(directory string, files map[string][]byte) error {
	if err := os.MkdirAll(filepath.Join(d.path, directory), 0o700); err != nil {
		return err
	}
	for name, data := range files {
		if err := atomicfile.WritePrivate(filepath.Join(d.path, directory, name), data); err != nil {
			return err
		}
	}
	return nil
}

func (d *Directory) find(name string) int {
	return slices.IndexFunc(d.members, func(m member) bool { return m.Name == name })
}

func (d *Directory) unknown(name string) error {
	var names []string
	for _, m := range d.members {
		names = append(names, m.Name)
	}
	return fmt.Errorf("there is no member %s; there are %s", name, strings.Join(names, ", "))
}
