package main

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"html"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/dbqpg/dbqpg/internal/download"
)

const (
	publicIndex = "https://pypi.org/simple"
	maxIndex    = 32 << 20 // bytes
	maxMember   = 1 << 30  // bytes, unpacked
)

// advice is what the user can do about a download that fails.
const advice = "check the network (HTTPS_PROXY, and PIP_INDEX_URL for a mirror of PyPI), then try again"

// fetch fetches the part's files, unless the stamp shows that they are in place. The stamp, written last, has a digest
// of their description, then their paths.
func (p part) fetch(ctx context.Context, root, machine string) error {
	pinned, err := os.ReadFile(filepath.Join(root, p.pins))
	if err != nil {
		return err
	}
	packages, err := parsePins(string(pinned), machine)
	if err != nil {
		return fmt.Errorf("%s: %w", p.pins, err)
	}
	digest := fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%v", machine, pinned, p.files)))
	stamp := filepath.Join(root, ".deps", "setup", p.name)
	if complete(root, stamp, digest) {
		return nil
	}
	fmt.Printf("setup: fetching %s\n", p.what)
	work, err := os.MkdirTemp(root, ".deps-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	var paths []string
	for _, pkg := range packages {
		wheel, err := pkg.download(ctx, machine)
		if err != nil {
			if errors.Is(err, download.ErrUnavailable) {
				err = fmt.Errorf("%w: %s", err, advice)
			}
			return fmt.Errorf("%s %s: %w", pkg.name, pkg.version, err)
		}
		unpacked, err := p.unpack(pkg.name, wheel, filepath.Join(work, "files"))
		if err != nil {
			return fmt.Errorf("%s %s: %w", pkg.name, pkg.version, err)
		}
		paths = append(paths, unpacked...)
	}
	return install(root, filepath.Join(work, "files"), paths, stamp, digest)
}

// complete reports whether the stamp has this digest and its files exist.
func complete(root, stamp, digest string) bool {
	text, err := os.ReadFile(stamp)
	if err != nil {
		return false
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return lines[0] == digest && !slices.ContainsFunc(lines[1:], func(path string) bool {
		_, err := os.Stat(filepath.Join(root, path))
		return err != nil
	})
}

// install moves the files to where they belong. Each is replaced at once, so that programs that have it open keep
// theirs.
func install(root, from string, paths []string, stamp, digest string) error {
	if err := os.MkdirAll(filepath.Dir(stamp), 0o755); err != nil {
		return err
	}
	if err := os.Remove(stamp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, path := range paths {
		to := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(from, path), to); err != nil {
			return err
		}
	}
	made := filepath.Join(from, "stamp")
	if err := os.WriteFile(made, []byte(digest+"\n"+strings.Join(paths, "\n")+"\n"), 0o644); err != nil {
		return err
	}
	return os.Rename(made, stamp)
}

// pin is a version of a package and the SHA-256 hashes of its files for all machines.
type pin struct {
	name, version string
	hashes        []string
}

var (
	requirement = regexp.MustCompile(
		`^([A-Za-z0-9._-]+)==([^\s;]+)(?: *; *platform_machine == "(\w+)")?((?: +--hash=sha256:[0-9a-f]{64})+)$`)
	hash = regexp.MustCompile(`[0-9a-f]{64}`)
)

// parsePins parses pinned requirements in pip's format, without those of other machines.
func parsePins(text, machine string) (pins []pin, err error) {
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		found := requirement.FindStringSubmatch(line)
		if found == nil {
			return nil, fmt.Errorf("%q is not PACKAGE==VERSION --hash=sha256:HASH", line)
		}
		if only := found[3]; only == "" || only == machine {
			pins = append(pins, pin{found[1], found[2], hash.FindAllString(found[4], -1)})
		}
	}
	return pins, nil
}

// download returns the package's wheel for a machine. The index's page of a package (PEP 503) has links to its files:
// <a href="ADDRESS#sha256=HASH">.
func (p pin) download(ctx context.Context, machine string) ([]byte, error) {
	base := strings.TrimSuffix(cmp.Or(os.Getenv("PIP_INDEX_URL"), publicIndex), "/")
	page, index, err := download.Get(ctx, base+"/"+p.name+"/", maxIndex)
	if err != nil {
		return nil, err
	}
	wheels := regexp.MustCompile(`href="([^"#]+(?:_` + machine + `|-any)\.whl[^"#]*)#sha256=([0-9a-f]{64})"`)
	for _, found := range wheels.FindAllStringSubmatch(string(page), -1) {
		address, err := index.Parse(html.UnescapeString(found[1]))
		if err != nil || !slices.Contains(p.hashes, found[2]) {
			continue
		}
		wheel, _, err := download.Get(ctx, address.String(), maxMember)
		if sum := fmt.Sprintf("%x", sha256.Sum256(wheel)); err == nil && sum != found[2] {
			err = fmt.Errorf("%s has the SHA-256 %s, not %s", address.Redacted(), sum, found[2])
		}
		return wheel, err
	}
	return nil, fmt.Errorf("%s has no wheel for %s with a pinned hash", index.Redacted(), machine)
}

// unpack extracts the part's files from a package's wheel into a directory, and returns their paths there. A pattern
// without a match is an error.
func (p part) unpack(name string, wheel []byte, to string) (paths []string, err error) {
	archive, err := zip.NewReader(bytes.NewReader(wheel), int64(len(wheel)))
	if err != nil {
		return nil, err
	}
	for _, wanted := range p.files {
		if wanted.of != name {
			continue
		}
		before, pattern := len(paths), regexp.MustCompile("^(?:"+wanted.pattern+")$")
		for _, m := range archive.File {
			if m.FileInfo().IsDir() || !pattern.MatchString(m.Name) {
				continue
			}
			path := pattern.ReplaceAllString(m.Name, wanted.to)
			if !filepath.IsLocal(path) {
				return nil, fmt.Errorf("it has a file %q", m.Name)
			}
			if err := extract(m, filepath.Join(to, path), wanted.mode); err != nil {
				return nil, fmt.Errorf("%s: %w", m.Name, err)
			}
			paths = append(paths, path)
		}
		if len(paths) == before {
			return nil, fmt.Errorf("it has no %s", wanted.pattern)
		}
	}
	return paths, nil
}

func extract(member *zip.File, to string, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	content, err := member.Open()
	if err != nil {
		return err
	}
	defer content.Close()
	file, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	defer file.Close()
	if n, err := io.Copy(file, io.LimitReader(content, maxMember+1)); err != nil {
		return err
	} else if n > maxMember {
		return fmt.Errorf("it unpacks to more than %d bytes", maxMember)
	}
	return file.Close()
}
