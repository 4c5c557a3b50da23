package runs

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"github.com/dbqpg/dbqpg/internal/commandline"
	"github.com/dbqpg/dbqpg/internal/config"
)

// Summary returns the results and the directory of the complete run in settings.RunDir, and commands to continue with,
// as text for a terminal.
func Summary(settings *config.Settings) (string, error) {
	directory := settings.RunDir
	rows, err := ReadCSV[Row](ProgressFile(directory))
	if err != nil {
		return "", err
	}
	evaluations, err := ReadCSV[Evaluation](Evaluations(directory))
	if err != nil || len(rows) == 0 {
		return "", err
	}
	last := rows[len(rows)-1]
	reached := fmt.Sprintf("%d iterations and %d environment steps", last.Iteration+1, last.Steps)
	for _, row := range slices.Backward(rows) {
		if !math.IsNaN(row.ReturnMean) { // no episode may have ended in a batch of segments
			reached += fmt.Sprintf("; last return %.1f", row.ReturnMean)
			break
		}
	}
	if len(evaluations) > 0 {
		best := evaluations[0]
		for _, e := range evaluations {
			if e.MeanReturn > best.MeanReturn {
				best = e
			}
		}
		reached += fmt.Sprintf("; best evaluation %.1f ± %.1f (mean action), at checkpoint %d",
			best.MeanReturn, best.MeanStandardError, best.Iteration)
	}
	return fmt.Sprintf(`
The run is complete: %s.
It is in %s. Next:

  evaluate the best policy   %[3]s evaluate %[4]s
  export it                  %[3]s export %[4]s --to policy
  plot the run               go run ./learner/study report --out plot %[4]s
  compare in TensorBoard     tensorboard --logdir %[5]s
  train further              %[3]s --run-dir %[4]s --resume %[6]s
`, reached, directory, commandline.Program(), commandline.Quote(directory), commandline.Quote(filepath.Dir(directory)),
		settings.Longer(last.Iteration+1, last.Steps)), nil
}
