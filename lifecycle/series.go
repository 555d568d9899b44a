package lifecycle

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"
)

// steps are callbacks to be made one after the other.
type steps struct {
	n int
	// who returns the owner of the i-th, nil when there is none, and its stage.
	who func(i int) (*owner, Stage)
	// prep gets it ready, before its time begins; may be nil.
	prep func(i int)
	// exec makes it.
	exec func(ctx context.Context, i int) error
	// judge takes the outcome; true ends the series. Nil takes note of nothing.
	judge func(i int, c Class, began time.Time) bool
}

// series makes callbacks in a goroutine, which the caller waits for. One that
// hangs is left alone with its goroutine, and another one goes on.
type series struct {
	g *guard
	steps
	ctx  context.Context
	over chan *worker // a worker that ends tells who it was

	mu    sync.Mutex
	cur   *worker   // who works
	o     *owner    // whose callback runs, nil when none does
	began time.Time // when it began
	cc    *callContext
	stop  bool // no more callbacks
	ccs   []callContext
}

// worker is one goroutine of a series.
type worker struct {
	at   int  // the step that it is at
	left bool // it was left alone
	died bool // its callback ended the goroutine
}

// run makes all callbacks and returns when they are over or left alone. When
// ctx ends, the one under way is left alone and the others are not made.
func (g *guard) run(ctx context.Context, st steps) {
	if st.n == 0 {
		return
	}
	least := time.Hour
	any := false
	for i := range st.n {
		if o, _ := st.who(i); o != nil {
			least, any = min(least, o.timeout), true
		}
	}
	if !any {
		return
	}
	s := &series{g: g, steps: st, ctx: ctx, over: make(chan *worker, 1), ccs: make([]callContext, st.n)}
	s.start(0)
	runtime.Gosched() // most are over by then, and cost no timer
	select {
	case w := <-s.over:
		if !s.again(w) {
			return
		}
	default:
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
				s.start(w.at + 1)
			}
			timer.Reset(least)
		case <-canceled:
			canceled = nil
			if w := s.leave(true); w != nil {
				s.settled(w.at, ClassCanceled, s.began)
				return
			}
			// It is between two callbacks and ends before the next.
		}
	}
}

// again goes on after a worker that ended because its callback ended the
// goroutine, and reports whether it did.
func (s *series) again(w *worker) bool {
	if !w.died || s.settled(w.at, ClassPanic, s.began) {
		return false
	}
	s.start(w.at + 1)
	return true
}

// leave leaves the callback under way alone; nil when there is none.
func (s *series) leave(stop bool) *worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stop = s.stop || stop
	if s.o == nil {
		return nil
	}
	w := s.cur
	w.left = true
	s.o.running.Add(1)
	s.o = nil
	s.cc.end()
	return w
}

func (s *series) start(at int) {
	w := &worker{at: at}
	s.mu.Lock()
	s.cur = w
	s.mu.Unlock()
	go s.work(w)
}

func (s *series) work(w *worker) {
	defer func() {
		s.mu.Lock()
		left := w.left
		s.mu.Unlock()
		if !left {
			s.over <- w
		}
	}()
	for ; w.at < s.n; w.at++ {
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
		if s.prep != nil {
			s.prep(w.at)
		}
		began := time.Now()
		cc := &s.ccs[w.at]
		cc.Context, cc.until = s.ctx, began.Add(o.timeout)
		s.mu.Lock()
		if s.stop || s.ctx.Err() != nil {
			s.mu.Unlock()
			return
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
	return s.judge != nil && s.judge(i, c, began)
}

// tellSink tells the host of a failure, for a second at most.
func (g *guard) tellSink(f Failure) {
	o := &g.sinkOwner
	if o.running.Load() >= g.maxRunning {
		return
	}
	silent := &guard{maxRunning: g.maxRunning, maxFailures: 1 << 30, now: g.now}
	silent.run(context.Background(), steps{
		n:    1,
		who:  func(int) (*owner, Stage) { return o, "" },
		exec: func(context.Context, int) error { g.sink(f); return nil },
	})
}
