package observe

import (
	"fmt"
	"strings"
	"testing"
)

// The last lines are kept, whole ones, of bounded size.
func TestTail(t *testing.T) {
	tail, all := NewTail(100), ""
	for i := range 1000 {
		line := fmt.Sprintf("line %d%s\n", i, strings.Repeat(".", i%17))
		all += line
		if n, err := tail.Write([]byte(line)); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
		kept := string(tail.Bytes())
		if !strings.HasSuffix(all, kept) || len(kept) > 100 || len(all) > 100 &&
			(len(kept) < 20 || !strings.HasPrefix(kept, "line ")) {
			t.Fatalf("after %q there is %q", line, kept)
		}
	}
	if tail.Write([]byte(strings.Repeat("x", 1000) + "\n")); len(tail.Bytes()) > 100 {
		t.Errorf("of a long line %d bytes are kept", len(tail.Bytes()))
	}
}
