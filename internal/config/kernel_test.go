package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dbqpg/dbqpg/estimators/gp/kernels"
	"github.com/dbqpg/dbqpg/estimators/gp/statekernel"
	"github.com/dbqpg/dbqpg/internal/config"
)

// Every base kernel is accepted with the number of columns that it has, and Validate checks the kernel of settings that
// no loader has read.
func TestBaseKernels(t *testing.T) {
	inDirectory(t, nil)
	for _, name := range kernels.Names() {
		base, err := kernels.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = load("--env Humanoid-v2 --features raw --base-kernel "+name, "")
		if columns := statekernel.Columns(base, 376); (columns > statekernel.MaxColumns) != (err != nil) ||
			err != nil && !strings.Contains(err.Error(), fmt.Sprintf("%s has %d columns, and the closed form takes at most %d",
				name, columns, statekernel.MaxColumns)) {
			t.Errorf("%s has %d columns: error %v", name, columns, err)
		}
		settings, _, err := load("--env Ant-v2 --base-kernel "+name, "")
		if err != nil || settings.BaseKernel != name || settings.Identity()["base_kernel"] != name {
			t.Errorf("--base-kernel %s: settings %+v, error %v", name, settings, err)
		}
	}
	settings, err := config.ForTask("Ant-v2", config.NPG, config.UAPG, config.Paper)
	if err != nil {
		t.Fatal(err)
	}
	settings.RunDir, settings.BaseKernel = "run", "matern"
	if err := settings.Validate(); err == nil || !strings.Contains(err.Error(), `--base-kernel "matern": there is no such kernel`) {
		t.Errorf("settings with the base kernel matern: error %v", err)
	}
}
