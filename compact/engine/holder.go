package engine

import (
	"crypto/rand"
	"encoding/hex"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/agentcompact/agentcompact/compact"
)

// live holds the runs of this process that have not ended, by [compact.Holder.Run].
var live sync.Map

var self = sync.OnceValue(func() compact.Holder {
	host, _ := os.Hostname()
	pid := os.Getpid()
	return compact.Holder{Host: host, PID: pid, Boot: bootOf(pid)}
})

// hold registers a run of this process; release ends it.
func hold(now time.Time, ttl time.Duration) (h compact.Holder, release func()) {
	h = self()
	h.Run = randomID()
	h.Since, h.Until = now.UTC(), now.Add(ttl).UTC()
	live.Store(h.Run, nil)
	return h, func() { live.Delete(h.Run) }
}

// alive reports whether the run of a holder may still commit.
func alive(h compact.Holder, now time.Time) bool {
	me := self()
	if h.Host != me.Host {
		return now.Before(h.Until)
	}
	if h.PID == me.PID && h.Boot == me.Boot {
		_, ok := live.Load(h.Run)
		return ok
	}
	return processAlive(h.PID) && bootOf(h.PID) == h.Boot
}

func processAlive(pid int) bool {
	if pid <= 0 {
		return false
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	if runtime.GOOS == "windows" {
		_ = p.Release()
		return true
	}
	err = p.Signal(syscall.Signal(0))
	return err == nil || os.IsPermission(err)
}

// bootOf returns when the process started, in the kernel's own measure; empty
// where the system does not tell.
func bootOf(pid int) string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	// The second field is the command in parentheses and may hold anything.
	s := string(b)
	fields := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(fields) < 20 {
		return ""
	}
	return fields[19]
}

func randomID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
