//go:build failpoint

package failpoint

import (
	"time"

	"github.com/dbqpg/dbqpg/internal/failpointtest"
)

func Hit(name string) { failpointtest.Hit(name) }

func Now() time.Time { return failpointtest.Now() }
