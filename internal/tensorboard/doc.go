// Package tensorboard writes the event files that TensorBoard draws its curves from.
//
// An event file is a sequence of records, each
//
//	8 bytes  n, the length of the data, little-endian
//	4 bytes  masked CRC-32C of those 8 bytes
//	n bytes  the data: an Event in the protocol buffers' encoding
//	4 bytes  masked CRC-32C of the data
//
// where the mask rotates the checksum right by 15 bits and adds 0xa282ead8. Of TensorFlow's event.proto and
// summary.proto this package writes
//
//	Event      { double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5; SessionLog session_log = 7; }
//	Summary    { repeated Value value = 1; }
//	Value      { string tag = 1; float simple_value = 2; }
//	SessionLog { Status status = 1; }    // START = 1
//
// A scalar is a simple_value: every version of TensorBoard and every other reader of these files knows it.
//
// # Resuming
//
// A directory holds the files of one run, one for each time it was started; TensorBoard reads them in the order
// of their names. A run that was killed may have left half a record at the end of the last file, and events of
// steps that it will do again. [Open] cuts both off, so that nothing is there twice for whoever reads the files
// from now on, and begins its own file with a session log START at the step to come, at which a TensorBoard that
// has already read them drops those events. Older files are only ever shortened, never rewritten: a TensorBoard
// that has them open is not disturbed.
package tensorboard
