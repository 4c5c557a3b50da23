package failpoint

import "os"

// ReleaseVariable is the environment variable by which a program takes itself for one of a release, such as 0.2.0.
const ReleaseVariable = "DBQPG_TEST_RELEASE"

// Release returns the release of [ReleaseVariable], "" if it is not set.
func Release() string { return os.Getenv(ReleaseVariable) }
