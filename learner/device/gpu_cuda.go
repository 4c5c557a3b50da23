//go:build gpu

package device

import (
	"github.com/dbqpg/dbqpg/estimators/compute"
	"github.com/dbqpg/dbqpg/estimators/compute/cuda"
)

func openGPU(index int) (compute.Backend, func(), error) {
	b, err := cuda.Open(index)
	if err != nil {
		return nil, nil, err
	}
	return b, b.Close, nil
}
