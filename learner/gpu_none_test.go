//go:build !gpu

package main_test

// tags are the build tags of the programs under test.
const tags = "failpoint"
