package browsertest

import (
	"errors"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/dbqpg/dbqpg/internal/download"
	"github.com/dbqpg/dbqpg/internal/web/bundle"
)

// The front end's own tests (internal/web/ui/test).
func TestFrontEnd(t *testing.T) {
	t.Parallel()
	if err := bundle.Fetch(t.Context(), bundle.Cache(), bundle.Libraries...); errors.Is(err, download.ErrUnavailable) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	script, err := bundle.BuildTests()
	if err != nil {
		t.Fatal(err)
	}
	p := open(t, address(start(t, "learner", "dashboard", published, "--http", "127.0.0.1:0")), "")
	evaluate[chromedp.Void](p, "{"+string(script)+"}; undefined")
	if checks := evaluate[int](p, "checks"); checks < 15 {
		t.Errorf("%d checks", checks)
	}
	for _, failure := range evaluate[[]string](p, "failures") {
		t.Error(failure)
	}
}
