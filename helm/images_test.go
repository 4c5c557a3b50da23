package helm

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The images of a release for several platforms have the names of those that `make images` builds, and that the chart
// pulls.
func TestImageNames(t *testing.T) {
	variables := strings.NewReplacer("${REGISTRY}", "ghcr.io/dbqpg", "${VERSION}", "0.1.0")
	var baked []string
	for _, tag := range regexp.MustCompile(`tags += \["(.*)"\]`).FindAllStringSubmatch(
		mustRead(t, "../charts/images/docker-bake.hcl"), -1) {
		baked = append(baked, variables.Replace(tag[1]))
	}
	output, err := exec.Command("make", "--no-print-directory", "--silent", "-C", "..", "image-names",
		"REGISTRY=ghcr.io/dbqpg", "TAG=0.1.0").Output()
	if err != nil {
		t.Fatal(err)
	}
	built := strings.Fields(string(output))
	if slices.Sort(built); len(built) != 4 {
		t.Fatal(built)
	}
	if slices.Sort(baked); !slices.Equal(baked, built) {
		t.Errorf("docker-bake.hcl makes %v, make images %v", baked, built)
	}
	pulled := map[string]bool{}
	for _, preset := range []string{"gpu", "cpu"} {
		r := render(t, presets(t)[preset])
		for _, o := range r.objects {
			if pod := podOf(t, o); pod != nil {
				for _, c := range containersOf(pod) {
					pulled[c.Image] = true
				}
			}
		}
	}
	for _, name := range built {
		if !pulled[name] {
			t.Errorf("no pod pulls %s", name)
		}
	}
}
