package cpu

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Every part is done once, also by calls of split that overlap, and by workers that come late.
func TestSplit(t *testing.T) {
	b := New(4)
	var callers sync.WaitGroup
	for caller := range 3 {
		callers.Go(func() {
			for call := range 2000 {
				n := 2 + (call+caller)%9
				done := make([]atomic.Int32, n)
				b.split(n, func(s *serial, i int) {
					done[i].Add(1)
					if call%500 == caller {
						time.Sleep(time.Millisecond) // so that the others do the rest
					}
				})
				for i := range done {
					if times := done[i].Load(); times != 1 {
						t.Errorf("caller %d, call %d: part %d of %d is done %d times", caller, call, i, n, times)
						return
					}
				}
			}
		})
	}
	callers.Wait()
}

// A panic reaches the caller, whoever met it, and the backend goes on.
func TestSplitPanics(t *testing.T) {
	b := New(3)
	for bad := range 5 {
		func() {
			defer func() {
				if r := recover(); r != fmt.Sprint("part ", bad) {
					t.Errorf("recovered %v, want part %d", r, bad)
				}
			}()
			b.split(5, func(s *serial, i int) {
				if i == bad {
					panic(fmt.Sprint("part ", i))
				}
			})
		}()
	}
}
