package helm

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Each command line of ours is one that the program takes: its own parser reads it. --help at the end keeps it from
// starting.
func TestFlags(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the programs")
	}
	checked := map[string]bool{}
	eachSet(t, func(t *testing.T, _ string, r *rendering) {
		for _, o := range r.objects {
			pod := podOf(t, o)
			if pod == nil {
				continue
			}
			for _, c := range containersOf(pod) {
				name, ours := ourProgram(c)
				line := fmt.Sprint(name, c.Args)
				if !ours || checked[line] {
					continue
				}
				checked[line] = true
				if output, err := exec.Command(program(t, name),
					append(c.Args, "--help")...).CombinedOutput(); err != nil {
					t.Errorf("%s %s: %v\n%s", name, strings.Join(c.Args, " "), err, output)
				}
			}
		}
	})
	if len(checked) < 12 {
		t.Errorf("only %d command lines", len(checked))
	}
	for _, wrong := range []string{"--slotz=4", "--slots=four"} {
		if exec.Command(program(t, "actor"), wrong, "--help").Run() == nil {
			t.Errorf("%s is taken: this test finds nothing", wrong)
		}
	}
}

// Values are checked too: without files where the pods have them, a program comes as far as its credentials, and no
// further.
func TestValuesOfFlags(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the programs")
	}
	checked := map[string]bool{}
	eachSet(t, func(t *testing.T, _ string, r *rendering) {
		for _, o := range slices.Concat(r.ofKind("StatefulSet"), r.ofKind("Deployment"), r.ofKind("Job")) {
			c := podOf(t, o).Spec.Containers[0]
			name, ours := ourProgram(c)
			var args []string
			for _, arg := range c.Args {
				args = append(args, strings.NewReplacer("$(POD_NAME)", "dbqpg-coordinator-0", "--device=cuda", "--device=cpu").Replace(arg))
			}
			line := fmt.Sprint(name, args)
			if !ours || checked[line] || strings.HasPrefix(o.GetName(), "dbqpg-credentials") {
				continue
			}
			checked[line] = true
			output, err := exec.Command(program(t, name), without(args, "--metrics-listen=")...).CombinedOutput()
			missing := "credentials in /etc/dbqpg/credentials: open"
			if o.GetName() == "dbqpg-player" {
				missing = "learner: dashboard: " // the store
			}
			if err == nil || !strings.Contains(string(output), missing) {
				t.Errorf("%s %s: %v\n%s", name, strings.Join(args, " "), err, output)
			}
		}
	})
}

// ourProgram returns the program that a container runs, if it is one of the product's.
func ourProgram(c corev1.Container) (name string, ours bool) {
	for _, name := range []string{"coordinator", "learner", "actor"} {
		if len(c.Command) == 0 && strings.Contains(c.Image, "dbqpg/"+name) {
			return name, true
		}
	}
	return "", false
}

func without(args []string, prefix string) (rest []string) {
	for _, arg := range args {
		if !strings.HasPrefix(arg, prefix) {
			rest = append(rest, arg)
		}
	}
	return rest
}
