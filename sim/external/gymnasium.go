package external

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/dbqpg/dbqpg/sim"
)

// IsGymnasium reports whether a name has the form of Gymnasium's, with a version.
func IsGymnasium(id string) bool {
	family, _ := sim.SplitName(id)
	return family != id && namePattern.MatchString(id)
}

// Gymnasium returns the task file of an environment that Gymnasium has under that name, as this machine's Python
// describes it (python/dbqpg/describe.py). The file's name is the environment's.
func Gymnasium(id string) (*File, error) {
	var words tail
	cmd := exec.Command("python3", "-m", "dbqpg.describe", "gymnasium:"+id, "--name", id)
	cmd.Stderr = &words
	described, err := cmd.Output()
	text := words.String() // whose last line is the reason
	text = strings.TrimPrefix(text[strings.LastIndexByte(text, '\n')+1:], "python -m dbqpg.describe: ")
	text = strings.TrimPrefix(text, "gymnasium:"+id+": ")
	switch {
	case err != nil && (text == "" || strings.Contains(text, "No module named")):
		if text == "" {
			text = err.Error()
		}
		return nil, fmt.Errorf("python3 needs the packages gymnasium and dbqpg (%s): "+
			"pip install './python[gymnasium]' (docs/environments.md)", text)
	case err != nil:
		return nil, errors.New(text)
	}
	f, err := Parse(bytes.TrimSpace(described))
	if err != nil {
		return nil, fmt.Errorf("the description of gymnasium:%s: %w", id, err)
	}
	return f, nil
}
