// Package safetensors reads and writes named arrays in the safetensors format, which Python's package of that
// name and most of the field's tools read too.
//
// A file is
//
//	8 bytes   N, the header's length, little-endian
//	N bytes   the header: JSON, padded with spaces to a multiple of 8
//	the rest  the arrays' elements, little-endian, row-major, one array after the other
//
// and the header is
//
//	{"__metadata__": {"key": "value", ...},
//	 "name": {"dtype": "F64", "shape": [64, 8], "data_offsets": [0, 4096]}, ...}
//
// with offsets counted from the header's end. The arrays fill the rest of the file exactly: no gap, no overlap.
//
// The same [File] always encodes to the same bytes. [Decode] does not trust its input: it accepts a file only if all
// lengths agree with the data, and allocates less than the length of the input plus 64 KiB. For this reason, and for
// simplicity, it is stricter than the format: it has the limits below, and requires the header's entries to be in the
// order of their data, as Python's package and this one write them.
package safetensors
