package tasks

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/cpu"

	"github.com/dbqpg/dbqpg/sim/mujoco"
)

// Engine names what computes the steps: engine, version and class of CPU. The same
// ticket may differ in the last bits between two names, for the engine uses the
// widest vectors that the processor has.
func Engine() string {
	class := runtime.GOARCH
	switch {
	case cpu.X86.HasAVX512F:
		class += "-avx512"
	case cpu.X86.HasAVX2:
		class += "-avx2"
	}
	return fmt.Sprintf("MuJoCo %s %s", mujoco.Version(), class)
}
