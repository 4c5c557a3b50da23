// Package tensorboard writes event files for TensorBoard.
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
//	Value      { string tag = 1; float simple_value = 2; TensorProto tensor = 8; SummaryMetadata metadata = 9; }
//	SessionLog { Status status = 1; }    // START = 1
//
// A scalar is a simple_value, which every version of TensorBoard and every other reader supports. The first of a tag in a
// file has a description of the curve in its metadata. The settings are a text tensor, and the hyperparameters messages of
// the HParams plugin, which are contained in metadata ([Writer.Describe]).
//
// # Resuming
//
// A directory holds the files of one run, one for each start; TensorBoard reads them in the order of their names.
// A killed run may leave half a record at the end of the last file, and events of steps that will be repeated.
// [Open] cuts off both, so that later readers see nothing twice, and starts its own file with a session log START at
// the next step, at which a TensorBoard that has already read those events drops them. Older files are only
// truncated or, if they have no other events, removed, never rewritten, so a TensorBoard that has them open is not disturbed.
package tensorboard
