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
// The same [File] always encodes to the same bytes. [Decode] takes nothing on trust: it accepts a file only where
// every length agrees with the bytes that are there, and allocates less than the input's length and 64 KiB. For
// that, and for simplicity, it is stricter than the format: it has the limits below, and wants the header's entries
// in the order of their data, as Python's package and this one write them.
package safetensors
