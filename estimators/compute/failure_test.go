package compute_test

import (
	"errors"
	"io"
	"testing"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

func TestCatchTurnsFailuresIntoErrors(t *testing.T) {
	task := func(what any) (err error) {
		defer compute.Catch(&err)
		if what != nil {
			panic(what)
		}
		return io.EOF
	}
	if err := task(nil); !errors.Is(err, io.EOF) {
		t.Errorf("without a panic the error became %v", err)
	}
	var failure *compute.Failure
	if err := task(&compute.Failure{Err: io.ErrNoProgress}); !errors.As(err, &failure) ||
		!errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a failed device gave %v", err)
	}
	defer func() {
		if r := recover(); r != "a mistake" {
			t.Errorf("another panic became %v", r)
		}
	}()
	_ = task("a mistake")
}
