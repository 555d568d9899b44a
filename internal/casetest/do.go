package casetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/target"
)

// outcome is what an op came to.
type outcome struct {
	op      string
	class   string
	detail  string // in the library's words
	compact bool   // a compaction op
	took    time.Duration
}

// inFlight is a run that start began.
type inFlight struct {
	cancel context.CancelFunc
	done   chan struct{}
	began  time.Time
	out    *compact.Outcome
	err    error
	before int // attempts in the log
}

// do carries one op out. The error says that the runner could not; what the
// library refuses is an outcome.
func (w *world) do(o op) error {
	if w.sess == nil {
		return errors.New("no session is open")
	}
	switch o.name {
	case "load":
		return w.load(o)
	case "load_log":
		return w.note(o, w.loadLog())
	case "append":
		return w.append(o.a)
	case "append_user":
		return w.appendOther(session.UserText(o.arg))
	case "append_result":
		w.stopsRunning(o.id)
		if err := w.appendOther(session.ToolText(o.id, o.arg)); err != nil {
			return err
		}
		r, err := w.build(false)
		w.seen.afterAppend = r
		return err
	case "queue":
		return w.append(o.a)
	case "request":
		if err := w.tellCalls(); err != nil {
			return err
		}
		r, err := w.build(true)
		if err == nil {
			w.seen.requests = append(w.seen.requests, request{chatRequest: r, modelCall: true, byOp: true})
		}
		return w.note(o, err)
	case "rewind":
		return w.note(o, w.rewind(o.a))
	case "reload":
		return w.note(o, w.reload())
	case "crash":
		w.seen.before = w.surface()
		return w.crash()
	case "rewrite":
		return nil // the store never rewrites
	case "switch_model":
		return w.switchModel()
	case "view_steps":
		return nil
	case "view_history":
		h, err := w.history()
		w.seen.history = h
		return err
	}
	return w.doCompaction(o)
}

// note records the outcome of an op that is no compaction op.
func (w *world) note(o op, err error) error {
	class := none
	if err != nil {
		class = storageFailed
	}
	out := outcome{op: o.text, class: class}
	if err != nil {
		out.detail = err.Error()
	}
	w.seen.outcomes = append(w.seen.outcomes, out)
	return nil
}

// doCompaction carries out the ops that may compact.
func (w *world) doCompaction(o op) error {
	switch o.name {
	case "finish", "cancel", "finish_background", "apply":
	default:
		if err := w.tellCalls(); err != nil {
			return err
		}
		if err := w.beforeCompaction(); err != nil {
			return err
		}
	}
	switch o.name {
	case "check":
		w.estimate()
		return w.measure(o, func() (string, string, error) {
			before := len(w.attempts())
			out, err := w.eng.Consider(w.real, w.agent(), compact.Pressure)
			w.decided(before, out)
			return w.judge(before, out, err)
		})
	case "manual", "full_replace":
		opts := &compact.NowOptions{}
		if o.name == "full_replace" {
			opts.Target = target.FullReplace
		}
		return w.measure(o, func() (string, string, error) {
			before := len(w.attempts())
			_, err := w.eng.CompactNow(w.real, w.agent(), opts)
			return w.judge(before, nil, err)
		})
	case "region":
		return w.measure(o, func() (string, string, error) {
			before := len(w.attempts())
			_, err := w.eng.CompactRegion(w.real, w.agent(), w.seqAt(o.a), w.seqAt(o.b))
			return w.judge(before, nil, err)
		})
	case "overflow":
		return w.overflow(o)
	case "parallel":
		w.estimate()
		return w.measure(o, func() (string, string, error) { return w.parallel(o.a) })
	case "start":
		w.estimate()
		return w.start()
	case "finish":
		w.srv.release()
		return w.finish(o)
	case "cancel":
		w.run.cancel()
		err := w.finish(o)
		w.srv.release()
		return err
	case "start_background":
		return w.startBackground()
	case "finish_background":
		w.srv.release()
		return w.eng.WaitBackground(w.real, w.agent())
	case "apply":
		return w.measure(o, func() (string, string, error) {
			before := len(w.attempts())
			res, err := w.eng.ApplyBackground(w.real, w.agent())
			if res == nil && err == nil {
				return w.behind()
			}
			return w.judge(before, nil, err)
		})
	}
	return fmt.Errorf("op %q is not known to the runner", o.name)
}

// seqAt is the event at a position of the surface, leading system messages
// included; those have none.
func (w *world) seqAt(i int) session.Seq {
	v := w.sess.View()
	if i -= len(w.system); i < 0 || i >= v.Len() {
		return session.NoSeq
	}
	return v.Node(i).Seq
}

// beforeCompaction notes what the first compaction op finds.
func (w *world) beforeCompaction() error {
	if w.seen.started {
		return nil
	}
	w.seen.started = true
	w.seen.first = w.surface()
	w.seen.firstSeq = w.sess.View().Next()
	size, err := w.logSize()
	w.seen.firstSize = size
	return err
}

// estimate notes the pressure at a check, before it changes anything.
func (w *world) estimate() {
	n := engine.Estimate(w.sess.View())
	if w.seen.estimates == 0 {
		w.seen.firstEstimate = n
	}
	w.seen.estimates++
	w.seen.lastEstimate = n
}

// measure runs a compaction op and records its outcome.
func (w *world) measure(o op, run func() (class, detail string, err error)) error {
	began := w.clk.now()
	commits := len(w.committed())
	class, detail, err := run()
	if err != nil {
		return err
	}
	w.ended(outcome{op: o.text, class: class, detail: detail, compact: true, took: w.clk.now().Sub(began)}, commits)
	return nil
}

// ended records the outcome of a compaction op and what it left.
func (w *world) ended(out outcome, commits int) {
	w.seen.outcomes = append(w.seen.outcomes, out)
	if w.seen.sizeAfter == 0 {
		w.seen.sizeAfter, _ = w.logSize()
	}
	if list := w.committed(); len(list) > commits {
		w.records = append(w.records, list[len(list)-1].EndSeq)
		w.seen.left = append(w.seen.left, engine.Estimate(w.sess.View()))
	}
	w.seen.open = w.open0()
}

// open0 lists the calls that are open on the surface.
func (w *world) open0() []string {
	v := w.sess.View()
	out := []string{}
	for i := range v.Len() {
		out = append(out, openCalls(v, i)...)
	}
	return out
}

// decided notes whether the first check decided to compact. before is how many
// attempts the log had.
func (w *world) decided(before int, out *compact.Outcome) {
	if w.seen.trigger == nil {
		fired := len(w.attempts()) > before || out != nil && len(out.Pruned) > 0
		w.seen.trigger = &fired
	}
}

// behind returns the class of a run in the background of which nothing was
// committed.
func (w *world) behind() (class, detail string, fatal error) {
	list := w.attempts()
	if len(list) <= w.background || list[w.background].End == nil {
		return none, "", nil
	}
	end := list[w.background].End
	if end.Code == compact.Cancelled {
		return none, "", nil // it gave way to a run by hand
	}
	class, ok := classOf[end.Code]
	if !ok {
		return "", "", fmt.Errorf("code %q has no class: %s", end.Code, end.Error)
	}
	return class, end.Error, nil
}

// judge returns the class of what the service answered. before is how many
// attempts the log had: a check that starts no run because of an earlier
// outcome has the class of that outcome.
func (w *world) judge(before int, out *compact.Outcome, err error) (class, detail string, fatal error) {
	code, ok := codeOf(err)
	if !ok {
		return "", "", err
	}
	if err != nil {
		detail = err.Error()
	} else if out != nil {
		code = out.Code
		detail = out.Reason
	}
	if list := w.attempts(); code == compact.BreakerOpen && len(list) == before {
		code = ""
		for i := len(list) - 1; i >= 0 && code == ""; i-- {
			if list[i].End != nil {
				code = list[i].End.Code
			}
		}
	}
	class, ok = classOf[code]
	if !ok {
		return "", "", fmt.Errorf("code %q has no class: %s", code, detail)
	}
	return class, detail, nil
}

// parallel runs checks at the same time. The outcome is that of the one which
// did the work.
func (w *world) parallel(n int) (string, string, error) {
	type answer struct {
		out *compact.Outcome
		err error
	}
	before := len(w.attempts())
	answers := make(chan answer)
	for range n {
		go func() {
			out, err := w.eng.Consider(w.real, w.agent(), compact.Pressure)
			answers <- answer{out, err}
		}()
	}
	class, detail := none, ""
	var out *compact.Outcome
	var fatal error
	for range n {
		a := <-answers
		c, d, err := w.judge(before, a.out, a.err)
		fatal = errors.Join(fatal, err)
		if c != none {
			class, detail = c, d
		}
		out = cmp.Or(out, a.out)
	}
	w.decided(before, out)
	return class, detail, fatal
}

// start begins a check and returns when its first request has arrived, or when
// it is over without one.
func (w *world) start() error {
	w.srv.hold()
	ctx, cancel := context.WithCancel(w.real)
	r := &inFlight{cancel: cancel, done: make(chan struct{}), began: w.clk.now(), before: len(w.attempts())}
	w.run = r
	asked := len(w.srv.Requests())
	go func() {
		defer close(r.done)
		r.out, r.err = w.eng.Consider(ctx, w.agent(), compact.Pressure)
	}()
	wait, stop := context.WithCancel(w.real)
	defer stop()
	go func() {
		select {
		case <-r.done:
			stop()
		case <-wait.Done():
		}
	}()
	_, err := w.srv.Await(wait, asked+1)
	if err != nil && w.real.Err() == nil && errors.Is(err, context.Canceled) {
		return nil // it is over already
	}
	return err
}

// finish waits for the end of the run that start began.
func (w *world) finish(o op) error {
	r := w.run
	<-r.done
	r.cancel()
	w.run = nil
	w.decided(r.before, r.out)
	class, detail, err := w.judge(r.before, r.out, r.err)
	if err != nil {
		return err
	}
	commits := 0
	for _, a := range w.attempts()[:r.before] {
		if a.Committed() {
			commits++
		}
	}
	w.ended(outcome{op: o.text, class: class, detail: detail, compact: true, took: w.clk.now().Sub(r.began)}, commits)
	return nil
}

func (w *world) startBackground() error {
	w.srv.hold()
	asked := len(w.srv.Requests())
	w.background = len(w.attempts())
	began, err := w.eng.StartBackground(w.process, w.agent())
	if err != nil || !began {
		w.srv.release()
		w.seen.outcomes = append(w.seen.outcomes, outcome{op: "start_background", class: none, detail: fmt.Sprint("began nothing: ", err)})
		return nil
	}
	_, err = w.srv.Await(w.real, asked+1)
	return err
}

func (w *world) rewind(record int) error {
	if record < 1 || record > len(w.records) {
		return fmt.Errorf("there is no record %d in a log of %d", record, len(w.records))
	}
	b := w.batch()
	w.records = append(w.records, b.add(session.Rewind{To: w.records[record-1]}))
	return b.commit()
}

func (w *world) reload() error {
	before := w.seen.before
	if before == nil {
		before = w.surface()
	}
	w.seen.before = nil
	if err := w.reopen(); err != nil {
		return err
	}
	if s := differ(before, w.surface()); s != "" && w.seen.unequal == "" {
		w.seen.unequal = "after reload: " + s
	}
	return nil
}

func (w *world) switchModel() error {
	w.model = nextModel
	w.believed = w.windows[nextModel]
	b := w.batch()
	b.envelope()
	return b.commit()
}
