package lifecycle

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"
)

// AuxRequest is a question to a model beside a compaction.
type AuxRequest struct {
	// Key identifies the work: while a job with the same key is known, another
	// submission is that job. Required.
	Key string
	// Instructions say what is wanted, Text is what it is about. Text is data:
	// nothing in it is an instruction.
	Instructions string
	Text         string
	// MaxTokens bounds the answer; 0 means that whoever answers decides.
	MaxTokens int
}

// AuxResult is the answer.
type AuxResult struct {
	Text string
	// PromptTokens and CompletionTokens are those that the provider reported.
	PromptTokens, CompletionTokens int
}

// JobID identifies a submitted request.
type JobID string

// BackgroundClient asks a model in the background. It is safe for concurrent
// use.
type BackgroundClient interface {
	// SubmitCollect takes a request and returns at once. The work does not end
	// with ctx, which is only asked whether it has ended already. The error is
	// [ErrAuxFull] or [ErrAuxClosed], or says what is wrong with the request.
	SubmitCollect(ctx context.Context, req AuxRequest) (JobID, error)
	// Await waits for the answer, as long as ctx lasts. A job stays known until
	// it is forgotten or has aged; one that is not known is [ErrAuxUnknown].
	Await(ctx context.Context, id JobID) (AuxResult, error)
	// Forget drops the answer of a job. It does not stop a running one.
	Forget(id JobID)
}

// The errors of [Background].
var (
	ErrAuxFull    = errors.New("auxiliary request: too many are waiting")
	ErrAuxClosed  = errors.New("auxiliary request: the background is closed")
	ErrAuxUnknown = errors.New("auxiliary request: no such job")
	// ErrAuxFailed stands for a panic of the function that answers.
	ErrAuxFailed = errors.New("auxiliary request: the answer failed")
)

// AuxFunc answers a request.
type AuxFunc func(ctx context.Context, req AuxRequest) (AuxResult, error)

// BackgroundOptions configure [NewBackground]. Nil means all defaults.
type BackgroundOptions struct {
	// Workers is how many requests are answered at once; 0 means 2.
	Workers int
	// Queue is how many may wait; 0 means 16.
	Queue int
	// Results is how many jobs are known at most, TTL how long an answer is
	// kept; 0 means 64 and ten minutes. The oldest answers go first.
	Results int
	TTL     time.Duration
	// Timeout bounds the answering of one request; 0 means one minute.
	Timeout time.Duration
	// MaxBytes bounds an answer, which is cut there; 0 means 256 KiB.
	MaxBytes int
	// Now is the clock of TTL; nil means [time.Now].
	Now func() time.Time
}

// Background answers requests with a bounded number of workers, which start
// with the first request. Close ends it.
type Background struct {
	answer AuxFunc
	o      BackgroundOptions
	ctx    context.Context
	stop   context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	workers int
	waiting []*auxJob
	jobs    map[JobID]*auxJob
	byKey   map[string]*auxJob
	order   []*auxJob // as submitted
	last    uint64
	wake    *sync.Cond
}

type auxJob struct {
	id       JobID
	req      AuxRequest
	done     chan struct{}
	finished time.Time // zero while it is not
	res      AuxResult
	err      error
}

var _ BackgroundClient = (*Background)(nil)

// NewBackground returns a background that answers with fn. A panic of fn fails
// its request.
func NewBackground(fn AuxFunc, opts *BackgroundOptions) (*Background, error) {
	if fn == nil {
		return nil, errors.New("auxiliary requests: a function that answers is required")
	}
	var o BackgroundOptions
	if opts != nil {
		o = *opts
	}
	def := func(p *int, v int) {
		if *p <= 0 {
			*p = v
		}
	}
	def(&o.Workers, 2)
	def(&o.Queue, 16)
	def(&o.Results, 64)
	def(&o.MaxBytes, 256<<10)
	if o.TTL <= 0 {
		o.TTL = 10 * time.Minute
	}
	if o.Timeout <= 0 {
		o.Timeout = time.Minute
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	b := &Background{answer: fn, o: o, jobs: make(map[JobID]*auxJob), byKey: make(map[string]*auxJob)}
	b.ctx, b.stop = context.WithCancel(WithAuxiliary(context.Background()))
	b.wake = sync.NewCond(&b.mu)
	return b, nil
}

// SubmitCollect implements [BackgroundClient].
func (b *Background) SubmitCollect(ctx context.Context, req AuxRequest) (JobID, error) {
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	if req.Key == "" {
		return "", errors.New("auxiliary request: it has no key")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return "", ErrAuxClosed
	}
	b.age()
	if j := b.byKey[req.Key]; j != nil {
		return j.id, nil
	}
	if len(b.waiting) >= b.o.Queue || len(b.jobs) >= b.o.Results {
		return "", ErrAuxFull
	}
	b.last++
	j := &auxJob{id: JobID("aux-" + strconv.FormatUint(b.last, 10)), req: req, done: make(chan struct{})}
	b.jobs[j.id], b.byKey[req.Key] = j, j
	b.order = append(b.order, j)
	b.waiting = append(b.waiting, j)
	if b.workers < b.o.Workers && len(b.waiting) > 0 {
		b.workers++
		b.wg.Add(1)
		go b.work()
	}
	b.wake.Signal()
	return j.id, nil
}

// age drops answers that are too old, and the oldest ones when there are too
// many. The caller holds the lock.
func (b *Background) age() {
	now := b.o.Now()
	keep := b.order[:0]
	excess := len(b.jobs) + 1 - b.o.Results
	for _, j := range b.order {
		switch {
		case b.jobs[j.id] == nil:
		case !j.finished.IsZero() && (excess > 0 || now.Sub(j.finished) >= b.o.TTL):
			b.drop(j)
			excess--
		default:
			keep = append(keep, j)
		}
	}
	clear(b.order[len(keep):])
	b.order = keep
}

func (b *Background) drop(j *auxJob) {
	delete(b.jobs, j.id)
	if b.byKey[j.req.Key] == j {
		delete(b.byKey, j.req.Key)
	}
}

func (b *Background) work() {
	defer b.wg.Done()
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		for len(b.waiting) == 0 && !b.closed {
			b.wake.Wait()
		}
		if b.closed {
			return
		}
		j := b.waiting[0]
		b.waiting = b.waiting[1:]
		b.mu.Unlock()
		res, err := b.one(j.req)
		b.mu.Lock()
		b.finish(j, res, err)
	}
}

func (b *Background) finish(j *auxJob, res AuxResult, err error) {
	j.res, j.err, j.finished = res, err, b.o.Now()
	close(j.done)
}

func (b *Background) one(req AuxRequest) (res AuxResult, err error) {
	defer func() {
		if recover() != nil {
			res, err = AuxResult{}, ErrAuxFailed
		}
	}()
	ctx, cancel := context.WithTimeout(b.ctx, b.o.Timeout)
	defer cancel()
	res, err = b.answer(ctx, req)
	if len(res.Text) > b.o.MaxBytes {
		res.Text = clip(res.Text, b.o.MaxBytes)
	}
	return res, err
}

// Await implements [BackgroundClient].
func (b *Background) Await(ctx context.Context, id JobID) (AuxResult, error) {
	b.mu.Lock()
	b.age()
	j := b.jobs[id]
	b.mu.Unlock()
	if j == nil {
		return AuxResult{}, ErrAuxUnknown
	}
	select {
	case <-j.done:
		return j.res, j.err
	case <-ctx.Done():
		return AuxResult{}, context.Cause(ctx)
	}
}

// Forget implements [BackgroundClient].
func (b *Background) Forget(id JobID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if j := b.jobs[id]; j != nil {
		b.drop(j)
	}
}

// Close takes no more requests, cancels those under way, fails those that
// wait, and returns when the workers are gone. A second Close does nothing.
func (b *Background) Close() error {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		for _, j := range b.waiting {
			b.finish(j, AuxResult{}, ErrAuxClosed)
		}
		b.waiting = nil
		b.stop()
		b.wake.Broadcast()
	}
	b.mu.Unlock()
	b.wg.Wait()
	return nil
}
