package processtest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// Memory returns a line of /proc/PID/status in bytes, such as VmRSS or VmHWM, the highest that VmRSS was.
func Memory(t testing.TB, pid int, name string) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			n, err := strconv.Atoi(strings.Fields(value)[0])
			if err != nil {
				t.Fatal(err)
			}
			return n << 10
		}
	}
	t.Fatalf("no %s in %s", name, text)
	return 0
}
