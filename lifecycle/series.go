package lifecycle

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"
)

// steps are callbacks to be made one after the other.
type steps interface {
	size() int
	// who returns the owner of the i-th, nil when there is none, and its stage.
	who(i int) (*owner, Stage)
	// exec makes it.
	exec(ctx *callContext, i int) error
}

// judge is an optional ability of steps.
type judge interface {
	// prepare gets the i-th ready, before its time begins.
	prepare(i int)
	// judge takes its outcome; true ends the series.
	judge(i int, c Class, began time.Time) bool
}

// series makes callbacks in a goroutine, which the caller waits for. One that
// hangs is left alone with its goroutine, and another one goes on.
type series struct {
	g *guard
	steps
	judge judge // nil when steps have none
	// ctx ends the steps before bound; the others are made all the same, with
	// free as their context.
	ctx, free context.Context
	bound     int
	over      chan *worker // a worker that ends tells who it was

	mu    sync.Mutex
	cur   *worker   // who works
	o     *owner    // whose callback runs, nil when none does
	began time.Time // when it began
	cc    *callContext
	stop  bool // ctx has ended
	first worker
	ccs   []callContext
}

// worker is one goroutine of a series.
type worker struct {
	at   int  // the step that it is at
	left bool // it was left alone
	died bool // its callback ended the goroutine
}

// run makes all callbacks and returns when they are over or left alone. When
// ctx ends, the one under way is left alone and the others are not made, if
// they are among the first bound ones.
func (g *guard) run(ctx context.Context, st steps, bound int) {
	n := st.size()
	least := time.Hour
	any := false
	for i := range n {
		if o, _ := st.who(i); o != nil {
			least, any = min(least, o.timeout), true
		}
	}
	if !any {
		return
	}
	s := &series{g: g, steps: st, ctx: ctx, free: ctx, bound: bound, over: make(chan *worker, 1), ccs: make([]callContext, n)}
	s.judge, _ = st.(judge)
	if bound < n {
		s.free = context.WithoutCancel(ctx)
	}
	s.start(&s.first, 0)
	// Most are over soon, and cost neither a timer nor a thread that sleeps.
	for range 8 {
		runtime.Gosched()
		select {
		case w := <-s.over:
			if !s.again(w) {
				return
			}
		default:
		}
	}
	timer := time.NewTimer(least)
	defer timer.Stop()
	canceled := ctx.Done()
	for {
		select {
		case w := <-s.over:
			if !s.again(w) {
				return
			}
		case <-timer.C:
			wait := least
			s.mu.Lock()
			if s.o != nil {
				wait = min(least, s.o.timeout-time.Since(s.began))
			}
			s.mu.Unlock()
			if wait > 0 {
				timer.Reset(wait)
				continue
			}
			if w := s.leave(false); w != nil {
				if s.settled(w.at, ClassDeadline, s.began) {
					return
				}
				s.start(new(worker), w.at+1)
			}
			timer.Reset(least)
		case <-canceled:
			canceled = nil
			if w := s.leave(true); w != nil {
				s.settled(w.at, ClassCanceled, s.began)
				s.start(new(worker), s.bound)
			}
			// Or it is between two callbacks, and passes over the others itself.
		}
	}
}

// again goes on after a worker that ended because its callback ended the
// goroutine, and reports whether it did.
func (s *series) again(w *worker) bool {
	if !w.died || s.settled(w.at, ClassPanic, s.began) {
		return false
	}
	s.start(new(worker), w.at+1)
	return true
}

// leave leaves the callback under way alone; nil when there is none. When it is
// left because ctx has ended, only if that ends it.
func (s *series) leave(stop bool) *worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop = s.stop || stop
	w := s.cur
	if s.o == nil || stop && w.at >= s.bound {
		return nil
	}
	w.left = true
	s.o.running.Add(1)
	s.o = nil
	s.cc.end()
	return w
}

func (s *series) start(w *worker, at int) {
	w.at = at
	s.mu.Lock()
	s.cur = w
	s.mu.Unlock()
	go s.work(w)
}

// roomy makes the stack of its goroutine as large as most callbacks need, at
// once and while little stands on it. Otherwise it grows step by step, and each
// step copies what is on it: a sixth of a dispatch.
//
//go:noinline
func roomy(i int) byte {
	var room [5 << 10]byte
	return room[i&1] // not a constant, or there would be no room
}

func (s *series) work(w *worker) {
	roomy(w.at)
	defer func() {
		s.mu.Lock()
		left := w.left
		s.mu.Unlock()
		if !left {
			s.over <- w
		}
	}()
	for n := s.size(); w.at < n; w.at++ {
		o, st := s.who(w.at)
		if o == nil {
			continue
		}
		if !s.g.admit(o) {
			if s.settled(w.at, ClassDropped, time.Now()) {
				return
			}
			continue
		}
		if s.judge != nil {
			s.judge.prepare(w.at)
		}
		began := time.Now()
		cc := &s.ccs[w.at]
		cc.Context, cc.until = s.free, began.Add(o.timeout)
		if w.at < s.bound {
			cc.Context = s.ctx
		}
		s.mu.Lock()
		if w.at < s.bound && (s.stop || s.ctx.Err() != nil) {
			s.mu.Unlock()
			w.at = s.bound - 1
			continue
		}
		s.o, s.began, s.cc = o, began, cc
		s.mu.Unlock()
		s.g.calls.Add(1)
		o.calls.Add(1)
		w.died = true
		c := s.one(w, o, st, cc)
		w.died = false
		if c == classLeft || s.settled(w.at, c, began) {
			return
		}
	}
}

// classLeft says that nobody waits for the callback any more.
const classLeft Class = "left"

// one makes one callback. Of its error and its panic nothing is kept.
func (s *series) one(w *worker, o *owner, st Stage, cc *callContext) (c Class) {
	c = ClassPanic
	defer func() {
		_ = recover() // the value could hold content
		cc.end()
		s.mu.Lock()
		if w.left {
			o.running.Add(-1)
			c = classLeft
		} else {
			s.o = nil
		}
		s.mu.Unlock()
	}()
	switch err := s.exec(cc, w.at); {
	case err == nil:
		return classOK
	case (st == StageBeforeRequest || st == StageBeforeRelease) && errors.Is(err, errVeto):
		return ClassVeto
	}
	return ClassError
}

// settled accounts for a callback and reports whether the series ends with it.
func (s *series) settled(i int, c Class, began time.Time) bool {
	o, st := s.who(i)
	s.g.settle(o, st, c, began)
	return s.judge != nil && s.judge.judge(i, c, began)
}

// tellSink tells the host of a failure, for a second at most.
func (g *guard) tellSink(f Failure) {
	o := &g.sinkOwner
	if o.running.Load() >= g.maxRunning {
		return
	}
	silent := &guard{maxRunning: g.maxRunning, maxFailures: 1 << 30, now: g.now}
	silent.run(context.Background(), &sinking{g, f}, 1)
}

// sinking is the one call of a sink.
type sinking struct {
	g *guard
	f Failure
}

func (*sinking) size() int                      { return 1 }
func (s *sinking) who(int) (*owner, Stage)      { return &s.g.sinkOwner, "" }
func (s *sinking) exec(*callContext, int) error { s.g.sink(s.f); return nil }
