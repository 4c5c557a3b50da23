package progress

// The names of a run's files, relative to its directory, that its pages read too.
const (
	RowsName        = "progress.csv"
	EvaluationsName = "evaluations.csv"
	BuildsName      = "builds.yaml"
	LogName         = "log.txt"
	OutcomeName     = "outcome.yaml"
	LockName        = ".lock" // locked (flock) while a learner writes to the directory
)

// Outcome is how a run's last learner ended, as in outcome.yaml; a learner that was killed leaves none.
type Outcome struct {
	State  string // done, stopped or failed
	Reason string // why it failed
}
