package compute

// Failure is the value with which a backend's method panics when its device fails, because
// it is out of memory or the driver has lost it. The host survives such a failure, so a
// task catches it in one place, at its top, rather than as an error of every operation.
type Failure struct {
	// Err describes the failure and its remedy.
	Err error
}

// Error implements error.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns Err.
func (f *Failure) Unwrap() error { return f.Err }

// Catch must be deferred: it recovers the panic of a failed device and sets *err to the
// Failure. Other panics continue. The backend must not be used any more afterwards.
func Catch(err *error) {
	switch r := recover().(type) {
	case nil:
	case *Failure:
		*err = r
	default:
		panic(r)
	}
}
