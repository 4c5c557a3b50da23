package compute

import "math/bits"

// SizeClass rounds the size of a buffer in bytes up to one of eight sizes for each power of two, at least 256. A pool
// that uses these sizes can reuse buffers: batches end with whole episodes, so hardly two have the same length, and a
// pool of exact sizes would keep the buffers of every past batch. At most an eighth of a buffer is wasted.
func SizeClass(bytes int64) int64 {
	const smallest, steps = 256, 8
	if bytes <= smallest {
		return smallest
	}
	step := int64(1) << (bits.Len64(uint64(bytes-1)) - 1) / steps
	return (bytes + step - 1) / step * step
}
