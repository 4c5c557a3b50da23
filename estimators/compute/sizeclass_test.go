package compute

import (
	"math/rand/v2"
	"testing"
)

func TestSizeClass(t *testing.T) {
	for _, c := range [][2]int64{
		{1, 256}, {256, 256}, {257, 288}, {512, 512}, {513, 576}, {1000, 1024}, {1 << 30, 1 << 30},
		{1<<30 + 1, 1<<30 + 1<<27},
	} {
		if got := SizeClass(c[0]); got != c[1] {
			t.Errorf("%d bytes are rounded to %d, want %d", c[0], got, c[1])
		}
	}
	for range 1000 {
		n := rand.Int64N(1 << 40)
		if got := SizeClass(n); got < n || got > max(256, n+n/8) || SizeClass(got) != got || got%8 != 0 {
			t.Fatalf("%d bytes are rounded to %d", n, got)
		}
	}
}
