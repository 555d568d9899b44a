package lifecycle

import (
	"context"
	"time"
)

// telling is a stage that nobody can change: the preservers are told, the
// observers, or both.
type telling[C, R any] struct {
	d *Dispatcher[C, R]
	// list is what the observers are told: all of one transition before any of
	// the next.
	list []Transition
	// run, stage, has and tell are for the preservers that have the callback, as
	// has says; nil stands for all. They are not told when run is nil.
	run   *Run[C, R]
	stage Stage
	has   func(k *keeper[C, R]) bool
	tell  func(ctx context.Context, k *keeper[C, R], s Services) error
	// last says that the preservers come after the observers.
	last bool
}

func (t *telling[C, R]) count() {
	for i := range t.list {
		t.d.count(t.list[i].Detail.Outcome)
	}
}

// observed is how many callbacks are the observers', two for each transition.
func (t *telling[C, R]) observed() int { return 2 * len(t.d.observers) * len(t.list) }

func (t *telling[C, R]) size() int {
	if t.run == nil {
		return t.observed()
	}
	return t.observed() + len(t.d.keepers)
}

// at returns the preserver of the i-th callback, or nil and the number among
// the observers' callbacks.
func (t *telling[C, R]) at(i int) (*keeper[C, R], int) {
	switch n := t.observed(); {
	case t.run == nil || t.last && i < n:
	case t.last:
		return &t.d.keepers[i-n], 0
	case i < len(t.d.keepers):
		return &t.d.keepers[i], 0
	default:
		i -= len(t.d.keepers)
	}
	return nil, i
}

func (t *telling[C, R]) who(i int) (*owner, Stage) {
	k, i := t.at(i)
	if k != nil {
		if t.has == nil || t.has(k) {
			return k.owner, t.stage
		}
		return nil, ""
	}
	each := 2 * len(t.d.observers)
	o := &t.d.observers[i%each/2]
	switch {
	case i%2 == 1 && o.detail != nil:
		return o.owner, StageDetail
	case i%2 == 0 && t.list[i/each].Detail.Outcome != OutcomeAborted:
		return o.owner, StageObserve
	}
	return nil, ""
}

func (t *telling[C, R]) exec(ctx *callContext, i int) error {
	k, i := t.at(i)
	if k != nil {
		return t.tell(ctx, k, t.run.services(ctx, k))
	}
	each := 2 * len(t.d.observers)
	o, x := &t.d.observers[i%each/2], &t.list[i/each]
	if i%2 == 1 {
		return o.detail.OnCompactionDetail(ctx, x.Event, x.Detail)
	}
	return o.OnCompaction(ctx, x.Event)
}

// services returns what a callback of k with that context may use.
func (r *Run[C, R]) services(cc *callContext, k *keeper[C, R]) Services {
	s := Services{BackgroundAux: r.d.opts.BackgroundAux}
	if r.info.State != nil {
		cc.lent = lentState{store: r.info.State, owner: k.id, cc: cc}
		s.State = &cc.lent
	}
	return s
}

// changing is a stage in which each preserver works on a copy of live, and
// what is valid is taken over.
type changing[C, R, T any] struct {
	run   *Run[C, R]
	stage Stage
	live  *T
	codec *Codec[T]
	check func(T) error // asked beside the codec; may be nil
	call  func(ctx context.Context, k *keeper[C, R], scratch *T, s Services) error

	slots []slot[T]
	veto  error
}

// slot is what one preserver was given and what it made of it. Each has its
// own, which a callback that was left alone may still read and write.
type slot[T any] struct{ prior, result T }

// change makes the callbacks; the error is the veto of one.
func change[C, R, T any](ctx context.Context, c changing[C, R, T]) error {
	if IsAuxiliary(ctx) {
		return nil
	}
	c.slots = make([]slot[T], len(c.run.d.keepers))
	c.run.d.guard.run(ctx, &c, len(c.slots))
	return c.veto
}

func (c *changing[C, R, T]) size() int { return len(c.slots) }

func (c *changing[C, R, T]) who(i int) (*owner, Stage) { return c.run.d.keepers[i].owner, c.stage }

func (c *changing[C, R, T]) prepare(i int) { c.slots[i].prior = *c.live }

func (c *changing[C, R, T]) exec(ctx *callContext, i int) error {
	k, s := &c.run.d.keepers[i], &c.slots[i]
	scratch := new(T)
	*scratch = c.codec.Clone(s.prior)
	if err := c.call(ctx, k, scratch, c.run.services(ctx, k)); err != nil {
		return err
	}
	s.result = c.codec.Clone(*scratch) // whoever kept the pointer has the other one
	return nil
}

func (c *changing[C, R, T]) judge(i int, class Class, began time.Time) bool {
	k := &c.run.d.keepers[i]
	switch {
	case class == ClassVeto:
		c.veto = &VetoError{ID: k.id}
		return true
	case class != classOK:
	case !accept(c.codec, c.check, c.live, c.slots[i].result):
		c.run.d.guard.settle(k.owner, c.stage, ClassInvalid, began)
	default:
		k.recovered()
	}
	return false
}

// accept puts next in the place of live, unless it is invalid. A check that
// panics says so.
func accept[T any](codec *Codec[T], check func(T) error, live *T, next T) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	if codec.Equal != nil && codec.Equal(*live, next) {
		return true
	}
	if codec.Validate != nil && codec.Validate(*live, next) != nil || check != nil && check(next) != nil {
		return false
	}
	*live = next
	return true
}
