package failpoint

import (
	"os"
	"sync"
	"time"
)

// SkewVariable is the environment variable by whose duration, such as -1h, the clock [Now] of a process is ahead of the machine's.
const SkewVariable = "DBQPG_TEST_SKEW"

var skew = sync.OnceValue(func() time.Duration {
	d, _ := time.ParseDuration(os.Getenv(SkewVariable)) // 0 if there is none
	return d
})

// Now is time.Now for a clock that tests may put forward or back.
func Now() time.Time { return time.Now().Add(skew()) }
