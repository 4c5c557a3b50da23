// Package export writes trained policies in the formats that other programs read: a folder with ONNX, safetensors and
// a model card as the Hugging Face Hub indexes them. It implements `learner export`. docs/files.md describes
// the files.
package export
