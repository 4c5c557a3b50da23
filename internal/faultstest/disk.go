package faultstest

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Disk is a file system of its own that can lose power.
type Disk struct {
	t     testing.TB
	image string
	// Path is where it is mounted.
	Path string
}

// diskOptions keep as little as the kernel may: nothing that was not synced, least of all the data of a file that was
// renamed.
const diskOptions = "loop,noauto_da_alloc,data=writeback,commit=300"

// NewDisk makes a file system until the test's end; where that is not allowed, the test is skipped.
func NewDisk(t testing.TB) *Disk {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a file system of its own, which can lose power, needs root")
	}
	directory := t.TempDir()
	d := &Disk{t, filepath.Join(directory, "image"), filepath.Join(directory, "disk")}
	if err := os.WriteFile(d.image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(d.image, 256<<20); err != nil { // what is not written takes no room
		t.Fatal(err)
	}
	if err := os.Mkdir(d.Path, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{
		{"mkfs.ext4", "-q", "-F", d.image}, {"mount", "-o", diskOptions, d.image, d.Path},
	} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Skipf("this machine allows no file system of its own: %q: %v %s", command, err, out)
		}
	}
	t.Cleanup(func() { d.run("umount", d.Path) })
	return d
}

// Cut cuts the power, and turns it on again: whatever was not synced is lost. The processes that use the disk must have
// been killed: they share its fate.
func (d *Disk) Cut() {
	d.t.Helper()
	directory, err := os.Open(d.Path)
	if err != nil {
		d.t.Fatal(err)
	}
	// EXT4_IOC_SHUTDOWN: from now on nothing reaches the disk, not even the journal's last transaction.
	const shutdown, noLogFlush = 0x8004587d, 2
	err = unix.IoctlSetPointerInt(int(directory.Fd()), shutdown, noLogFlush)
	directory.Close()
	if err != nil {
		d.t.Fatalf("cut the power of %s: %v", d.Path, err)
	}
	d.run("umount", d.Path)
	// Other mount namespaces, as of other tests, may still have the file system, which would be mounted again as it is
	// now.
	d.run("cp", "--sparse=always", d.image, d.image+".next")
	if err := os.Rename(d.image+".next", d.image); err != nil {
		d.t.Fatal(err)
	}
	d.run("mount", "-o", diskOptions, d.image, d.Path)
}

func (d *Disk) run(program string, arguments ...string) {
	d.t.Helper()
	if out, err := exec.Command(program, arguments...).CombinedOutput(); err != nil {
		d.t.Fatalf("%s %q: %v %s", program, arguments, err, out)
	}
}
