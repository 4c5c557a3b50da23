package config_test

import (
	"errors"
	"testing"

	"github.com/dbqpg/dbqpg/estimators/gp/kernels"
	"github.com/dbqpg/dbqpg/internal/config"
)

// Every base kernel is accepted, and Validate checks the kernel of settings that no loader has read.
func TestBaseKernels(t *testing.T) {
	inDirectory(t, nil)
	for _, name := range kernels.Names() {
		settings, _, err := load("--env Ant-v2 --base-kernel "+name, "")
		if err != nil || settings.BaseKernel != name || settings.Identity()["base_kernel"] != name {
			t.Errorf("--base-kernel %s: settings %+v, error %v", name, settings, err)
		}
	}
	settings, err := config.ForTask("Ant-v2", config.NPG, config.UAPG, config.Authors)
	if err != nil {
		t.Fatal(err)
	}
	settings.RunDir, settings.BaseKernel = "run", "matern"
	var unknown *kernels.UnknownError
	if err := settings.Validate(); !errors.As(err, &unknown) || unknown.Nearest != "matern12" {
		t.Errorf("settings with the base kernel matern: error %v", err)
	}
}
