package epochs

import "testing"

// What is named is found again, and names that only look like it are not.
func TestNames(t *testing.T) {
	for _, run := range []string{"sweep/Hopper-v5/npg-uapg-s1", "epoch-making", "id-card/epoch-x"} {
		for _, id := range []uint64{0, 3, 1<<64 - 1} {
			home := Home(run, id)
			if got := Run(home); got != run {
				t.Errorf("%s is the home of %s", home, got)
			}
			if id > 0 {
				if got, rest, found := CutID(home[len(run)+1:] + "/more"); got != id || rest != "more" || !found {
					t.Errorf("%s has the ID %d, %q, %v", home, got, rest, found)
				}
			}
			if got, epoch := Split(home); got != home || epoch != 0 {
				t.Errorf("%s is epoch %d of %s", home, epoch, got)
			}
			if got, epoch := Split(Directory(home, 7)); got != home || epoch != 7 {
				t.Errorf("%s is epoch %d of %s", Directory(home, 7), epoch, got)
			}
			if got := OfLog(Log(home, 7)); got != 7 {
				t.Errorf("%s is the log of epoch %d", Log(home, 7), got)
			}
		}
	}
	for _, name := range []string{"", "epoch-", "epoch-x", "epoch--1", "epoch", "7"} {
		if epoch, rest, found := CutEpoch(name); epoch != 0 || rest != name || found {
			t.Errorf("%q has the epoch %d, %q, %v", name, epoch, rest, found)
		}
	}
}
