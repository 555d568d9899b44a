package casetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/store/filestore"
	"github.com/agentcompact/agentcompact/summarize"
)

// The model of the agent, before and after a switch, and that of the
// summarizer.
const (
	agentModel = "agent-model"
	nextModel  = "agent-model-next"
	modelName  = "summarizer-model"
)

// world is a case under way: the host of one session.
type world struct {
	c    *Case
	dir  string
	clk  clock
	real context.Context

	messages []session.Message // of the case, expanded; those of summaries as they were fed
	tools    []session.Tool

	store  session.Store
	fs     *crashFS
	path   string // of the file store; empty for a memory store
	files  int
	faults *faults
	sess   *session.Session
	eng    *engine.Engine
	srv    *scripted

	model    string
	windows  map[string]int
	believed int // window of the present model as the host knows it
	maxBytes int // of later requests; 0 for no bound
	system   []session.Message
	seqs     map[int]session.Seq  // of messages on the surface, by index
	records  []session.Seq        // the last event of each record
	folds    map[int]session.Seq  // the message of each record of the log
	loaded   map[string]bool      // ids of the compactions that the case brought along
	running  map[string]bool      // calls that the host knows to be running
	interim  map[session.Seq]bool // rounds that are pinned for an interim result

	// process is over when the process dies or ends: what it runs in the background
	// ends with it.
	process context.Context
	exit    context.CancelFunc

	run *inFlight
	// background is the place of the newest background run among the attempts.
	background int
	seen       *seen
}

// clock runs on without anybody waiting: a sleep moves it forward.
type clock struct{ skipped atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.skipped.Load())) }

func (c *clock) sleep(ctx context.Context, d time.Duration) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	c.skipped.Add(int64(d))
	return nil
}

// Times that the summarizer waits for one reply: in a case where one never
// comes, and in the others, where nothing but a busy machine is slow.
const (
	shortTimeout = 2 * time.Second
	longTimeout  = 30 * time.Second
)

func newWorld(ctx context.Context, c *Case, dir string) (*world, error) {
	w := &world{c: c, dir: dir, real: ctx, model: agentModel, seqs: map[int]session.Seq{}, folds: map[int]session.Seq{},
		loaded: map[string]bool{}, faults: &faults{names: c.Given.Faults}, running: map[string]bool{}, interim: map[session.Seq]bool{}, seen: &seen{}}
	for _, id := range c.Given.RunningCalls {
		w.running[id] = true
	}
	w.maxBytes = c.Given.Policy.MaxRequestBytes
	w.setWindows()
	if err := w.parse(); err != nil {
		return nil, err
	}
	var err error
	if w.srv, err = serve(c.Given.Summarizer); err != nil {
		return nil, err
	}
	if c.durable() {
		w.fs = newCrashFS()
		w.path = w.newPath()
	} else {
		w.store = session.NewMemoryStore()
	}
	if err := w.open(); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// setWindows says which window each model has. A declared one wins over that
// of a catalog.
func (w *world) setWindows() {
	g := &w.c.Given
	at := g.ContextWindow
	if s := g.WindowSources; s != nil {
		switch {
		case s.Declared > 0:
			at = s.Declared
		case s.Catalog > 0:
			at = s.Catalog
		}
	}
	w.windows = map[string]int{agentModel: at, nextModel: at}
	if s := g.ModelSwitch; s != nil {
		w.windows[agentModel], w.windows[nextModel] = s.From, s.To
	}
	w.believed = w.windows[agentModel]
}

func (w *world) newPath() string {
	w.files++
	return filepath.Join(w.dir, fmt.Sprintf("session-%d.log", w.files))
}

// open opens the session, and a new engine as a new process would have.
func (w *world) open() error {
	if w.path != "" {
		s, err := filestore.Open(w.path, &filestore.Options{Now: w.clk.now, FS: w.fs})
		if err != nil {
			return err
		}
		w.store = s
	}
	store := w.store
	if len(w.c.Given.Faults) > 0 {
		w.faults.partial = false // a commit of the old process is over
		store = &faultyStore{Store: w.store, faults: w.faults}
	}
	var err error
	if w.sess, err = session.Open(w.real, store, &session.Options{Now: w.clk.now}); err != nil {
		return err
	}
	w.process, w.exit = context.WithCancel(w.real)
	w.eng, err = w.newEngine()
	return err
}

// endProcess ends what runs in the background, as the end of its process does.
func (w *world) endProcess() error {
	w.exit()
	if err := w.eng.WaitBackground(w.real, w.agent()); err != nil {
		return err
	}
	_, err := w.eng.ApplyBackground(w.real, w.agent()) // lets go of one that is ready
	return err
}

func (w *world) close() {
	if w.run != nil {
		w.run.cancel()
		<-w.run.done
	}
	if w.sess != nil {
		w.exit()
		_ = w.sess.Close()
	}
	if w.srv != nil {
		w.srv.release()
		w.srv.Close()
	}
}

func (w *world) agent() compact.Agent { return compact.Agent{Session: w.sess} }

// newEngine sets the engine up as the case asks and as the language presupposes:
// no check for sections, no floor for the length of a summary, any gain will
// do, nothing is pruned before a summary, no fallback, no wait between runs.
func (w *world) newEngine() (*engine.Engine, error) {
	p := &w.c.Given.Policy
	redactor, err := summarize.NewRedactor(p.Redact...)
	if err != nil {
		return nil, err
	}
	model, err := w.newSummarizer(redactor)
	if err != nil {
		return nil, err
	}
	policy := engine.Policy{
		ThresholdRatio: p.TriggerRatio, ReserveOutput: p.ReserveOutput, MinGain: -1, MaxSummaryTokens: p.MaxSummaryTokens,
		ResultCap: p.ToolResultCapTokens,
	}
	if p.TriggerTokens != nil {
		policy.ThresholdTokens = max(*p.TriggerTokens, 1)
	}
	setTail(&policy, p)
	opts := &engine.Options{
		Windows:  engine.WindowFunc(func(_, model string) (int, bool) { n := w.windows[model]; return n, n > 0 }),
		Policy:   policy,
		Prune:    engine.Prune{Off: true},
		AutoOff:  p.Auto != nil && !*p.Auto,
		Redactor: redactor,
		Run: summarize.RunOptions{
			Attempts: p.AttemptsPerRun, Deadline: time.Duration(p.DeadlineMS) * time.Millisecond,
			Guard: &summarize.GuardOptions{NoSections: true, NoFloor: true, MaxTokens: p.MaxSummaryTokens},
			Now:   w.clk.now, Sleep: w.clk.sleep,
		},
		Ledger:      summarize.LedgerOptions{CarryTools: p.CarryTools, CarryPaths: p.CarryPaths},
		MaxFailures: p.MaxFailures, CoolDown: -1, BackgroundRatio: leastRatio, Now: w.clk.now,
	}
	if opts.Run.Guard.MaxTokens == 0 {
		opts.Run.Guard.MaxTokens = unbounded
	}
	if notes := w.c.Given.LiveNotes; len(notes) > 0 {
		opts.LiveNotes = func(context.Context, compact.Agent) []string { return notes }
	}
	if p.Offload {
		opts.Offload = w.offload
	}
	return engine.New(model, opts)
}

const (
	// unbounded is a limit that no case reaches.
	unbounded = 1 << 30
	// leastRatio lets a background run begin at once: the case says when the
	// mark is reached.
	leastRatio = 1e-9
)

// setTail sets the wanted tail.
func setTail(to *engine.Policy, p *Policy) {
	messages, tokens := p.KeepRecentMessages, p.KeepRecentTokens
	if messages != nil {
		to.RetainMessages = *messages
	}
	if tokens != nil {
		to.RetainTokens = *tokens
	}
	to.NoTail = (messages != nil || tokens != nil) && to.RetainMessages == 0 && to.RetainTokens == 0
}

func (w *world) newSummarizer(redactor *summarize.Redactor) (summarize.Summarizer, error) {
	o := summarize.LLMOptions{
		BaseURL: w.srv.URL(), APIKey: "none", Model: modelName, Redactor: redactor, Timeout: longTimeout, Now: w.clk.now,
	}
	if s := w.c.Given.Summarizer; s != nil {
		o.Window, o.MaxTokens, o.MaxOutput = s.ContextWindow, s.MaxTokens, s.MaxOutput
		if slices.ContainsFunc(s.Script, func(r Reply) bool { return r.Error != nil && r.Error.Timeout }) {
			o.Timeout = shortTimeout
		}
		o.Timeout += time.Duration(s.DelayMS) * time.Millisecond
	}
	return summarize.NewLLM(o)
}

// offload stores folded text in a file.
func (w *world) offload(_ context.Context, id string, text []byte) (string, error) {
	if slices.Contains(w.c.Given.Faults, "offload_write_error") {
		return "", fmt.Errorf("offload: %w", errDisk)
	}
	name := "offload-" + id + ".txt"
	return name, os.WriteFile(filepath.Join(w.dir, name), text, 0o600)
}

// reopen closes the session and opens it anew.
func (w *world) reopen() error {
	if w.run != nil {
		return errors.New("a run is under way")
	}
	if err := w.endProcess(); err != nil {
		return err
	}
	if err := w.sess.Close(); err != nil {
		return err
	}
	return w.open()
}

// crash ends the process: what was not synced is gone.
func (w *world) crash() error {
	left := w.newPath()
	if err := w.fs.left(w.path, left); err != nil {
		return err
	}
	// What is left of the old process writes to a file that nobody reads again.
	if w.run != nil {
		w.run.cancel()
		<-w.run.done
		w.run = nil
	}
	w.srv.release()
	_ = w.endProcess()
	_ = w.sess.Close()
	w.path = left
	return nil
}
