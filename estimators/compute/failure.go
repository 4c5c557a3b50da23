package compute

// Failure is what a backend's method panics with when its device fails: memory runs
// out, the driver loses the device. A program on the processor's own memory would end
// in the same way, but what a device leaves behind, the host can save: so there is one
// place to catch it, at the top of a task, and not a result of every operation.
type Failure struct {
	// Err says what failed and what to do.
	Err error
}

// Error implements error.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns Err.
func (f *Failure) Unwrap() error { return f.Err }

// Catch must be deferred: it recovers the panic of a failed device and sets *err to the
// Failure. Other panics continue. The backend must not be used afterwards.
func Catch(err *error) {
	switch r := recover().(type) {
	case nil:
	case *Failure:
		*err = r
	default:
		panic(r)
	}
}
