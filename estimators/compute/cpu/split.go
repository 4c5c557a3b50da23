package cpu

import (
	"runtime"
	"sync/atomic"
	"time"
)

// patience is how long a goroutine spins for the next call of split, or for the others to finish, before it gives its core up. To wake
// one takes some 100 µs on a virtual machine, as long as an operation on a batch of 2,000 samples.
const patience = 100 * time.Microsecond

// split calls body for 0 <= i < n, distributed over the workers, of which the first is in the calling goroutine. It does not wait for
// helpers that come too late to find anything left.
func (b *Backend) split(n int, body func(s *serial, i int)) {
	workers := min(n, len(b.workers))
	if workers <= 1 {
		for i := range n {
			body(b.workers[0], i)
		}
		return
	}
	j := &job{n: int64(n), body: body, done: make(chan struct{})}
	for i := range workers - 1 {
		h := &b.helpers[i]
		if !h.next.CompareAndSwap(waiting, j) {
			go h.help(j)
		}
	}
	j.work(b.workers[0])
	spin(func() bool { return j.finished.Load() == j.n })
	<-j.done
	if r := j.failure.Load(); r != nil {
		panic(*r) // in the caller's goroutine, where it can be recovered
	}
}

// job is a call of split. Each worker takes one part after the other.
type job struct {
	n               int64
	body            func(s *serial, i int)
	taken, finished atomic.Int64
	done            chan struct{} // closed when all are finished
	failure         atomic.Pointer[any]
}

// work does the parts that no other worker has taken.
func (j *job) work(s *serial) {
	for i := j.taken.Add(1) - 1; i < j.n; i = j.taken.Add(1) - 1 {
		j.part(s, int(i))
		if j.finished.Add(1) == j.n {
			close(j.done)
		}
	}
}

// part calls body, and keeps a panic for the caller of split.
func (j *job) part(s *serial, i int) {
	defer func() {
		if r := recover(); r != nil {
			j.failure.CompareAndSwap(nil, &r)
		}
	}()
	j.body(s, i)
}

// helper runs a worker, in a goroutine of its own that ends when no call of split comes for a while.
type helper struct {
	worker *serial
	next   atomic.Pointer[job] // waiting, while the goroutine spins for it
}

var waiting = new(job)

// help works on a job and on those that follow soon.
func (h *helper) help(j *job) {
	for {
		j.work(h.worker)
		if !h.next.CompareAndSwap(nil, waiting) {
			return // calls of split overlapped, and the goroutine of another waits already
		}
		spin(func() bool { return h.next.Load() != waiting })
		if h.next.CompareAndSwap(waiting, nil) {
			return
		}
		j = h.next.Swap(nil)
	}
}

// spin returns when ready is true, or after a while.
func spin(ready func() bool) {
	for start := time.Now(); !ready() && time.Since(start) < patience; {
		for range 64 {
			if ready() {
				return
			}
		}
		runtime.Gosched()
	}
}
