//go:build !gpu

package main_test

// tags are those that the programs under test are built with.
const tags = ""
