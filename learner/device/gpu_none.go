//go:build !gpu

package device

import (
	"errors"

	"github.com/dbqpg/dbqpg/estimators/compute"
)

var errWithoutCUDA = errors.New("this program is built without CUDA; `make cuda` builds bin/learner with it")

func openGPU(int) (compute.Backend, func(), error) { return nil, nil, errWithoutCUDA }
