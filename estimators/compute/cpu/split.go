package cpu

import (
	"sync"
	"sync/atomic"
)

// split calls body for 0 <= i < n, distributed over the workers, of which the first is in the calling goroutine. It
// does not wait for others that come too late to find anything left: to wake a core takes some 100 µs on a virtual
// machine, as long as an operation on a batch of 2,000 samples. They do not spin for the next call either, which gains
// a tenth of an update where the cores are this program's own, and loses as much where they are not, as under a
// container's limit.
func (b *Backend) split(n int, body func(s *serial, i int)) {
	workers := min(n, len(b.workers))
	if workers <= 1 {
		for i := range n {
			body(b.workers[0], i)
		}
		return
	}
	var taken atomic.Int64
	var unfinished sync.WaitGroup // parts
	var failure atomic.Pointer[any]
	part := func(s *serial, i int) {
		defer unfinished.Done()
		defer func() {
			if r := recover(); r != nil {
				failure.CompareAndSwap(nil, &r)
			}
		}()
		body(s, i)
	}
	work := func(s *serial) {
		for i := int(taken.Add(1)) - 1; i < n; i = int(taken.Add(1)) - 1 {
			part(s, i)
		}
	}
	unfinished.Add(n)
	for _, s := range b.workers[1:workers] {
		go work(s)
	}
	work(b.workers[0])
	unfinished.Wait()
	if r := failure.Load(); r != nil {
		panic(*r) // in the caller's goroutine, where it can be recovered
	}
}
