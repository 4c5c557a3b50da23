package cpu

import "sync/atomic"

// split calls body for 0 <= i < n, distributed over the workers, of which the first is in the calling goroutine. It does not wait for
// others that come too late to find anything left: to wake a core takes some 100 µs on a virtual machine, as long as an operation on
// a batch of 2,000 samples. They do not spin for the next call either, which gains a tenth of an update where the cores are this
// program's own, and loses as much where they are not, as under a container's limit.
func (b *Backend) split(n int, body func(s *serial, i int)) {
	workers := min(n, len(b.workers))
	if workers <= 1 {
		for i := range n {
			body(b.workers[0], i)
		}
		return
	}
	j := &job{n: int64(n), body: body, done: make(chan struct{})}
	for _, s := range b.workers[1:workers] {
		go j.work(s)
	}
	j.work(b.workers[0])
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
