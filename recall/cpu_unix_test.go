//go:build unix

package recall_test

import (
	"syscall"
	"testing"
)

// cpu reports the processor time of a benchmark's operations, which other load
// on the machine does not change.
func cpu(b *testing.B) func() {
	used := func() int64 {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return u.Utime.Nano() + u.Stime.Nano()
	}
	start := used()
	return func() { b.ReportMetric(float64(used()-start)/1e6/float64(b.N), "cpu-ms/op") }
}
