package dashboard

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Pages with the files of all runs are for this machine alone unless a flag says otherwise.
func TestPagesAreForThisMachine(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", "192.0.2.1:8080"} {
		for _, cmd := range []*cobra.Command{Command(), PlayCommand()} {
			machine := cmd.Flags()
			if machine.Lookup("insecure-listen") == nil {
				t.Errorf("%s has no --insecure-listen", cmd.Name())
			}
		}
		cmd := Command()
		cmd.SetArgs([]string{t.TempDir(), "--http", address})
		cmd.SilenceUsage, cmd.SilenceErrors = true, true
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "--insecure-listen") {
			t.Errorf("--http %s: %v", address, err)
		}
	}
}
