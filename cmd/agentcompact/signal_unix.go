//go:build unix

package main

import (
	"os/signal"
	"syscall"
)

// ignoreLimits makes a write beyond a file size limit an error like any other.
func ignoreLimits() { signal.Ignore(syscall.SIGXFSZ) }
