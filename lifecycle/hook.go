package lifecycle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/agentcompact/agentcompact/session"
)

// HookOptions configure [NewHook].
type HookOptions struct {
	// ID names the preserver; empty means "hook".
	ID string
	// Args are the arguments of the program, as they are: there is no shell.
	Args []string
	// Dir is where it runs and Env what it finds in its environment; empty and
	// nil mean those of this process.
	Dir string
	Env []string
	// Timeout bounds one run; then the program is killed, with what it started
	// where the system can. 0 means ten seconds.
	Timeout time.Duration
	// Text adds the text of the conversation to what the program is told, at
	// most MaxText bytes from its end. The default is to tell numbers only.
	Text bool
	// MaxText is the most bytes of text; 0 means 1 MiB.
	MaxText int
}

// Hook is a preserver that runs a program before and after every compaction.
// It gets a [HookInput] as JSON on its standard input. Before, it may print a
// [HookOutput] as JSON and so call the compaction off, tell the summarizer
// what matters, and add notes to the checkpoint; exit code 2 calls the
// compaction off, too. Everything else that goes wrong, and everything it does
// afterward, changes nothing. What it prints on standard error is ignored.
//
// It is safe for concurrent use.
type Hook struct {
	path string
	o    HookOptions
}

var _ Preserver[Call, Checkpoint] = (*Hook)(nil)

// HookInput is what the program is told.
type HookInput struct {
	// Hook is "before_compaction" or "after_compaction", Version is 1.
	Hook    string `json:"hook"`
	Version int    `json:"version"`
	// ID identifies the compaction, the other names are those of [Event].
	ID            string `json:"id"`
	Trigger       string `json:"trigger"`
	Target        string `json:"target,omitempty"`
	SessionID     string `json:"session_id,omitempty"`
	TransactionID string `json:"transaction_id"`
	RuleID        string `json:"rule_id"`
	Provider      string `json:"provider,omitempty"`
	Model         string `json:"model,omitempty"`
	// Messages and Tokens are those of what is compacted.
	Messages int `json:"messages"`
	Tokens   int `json:"tokens"`
	// Instructions are those so far.
	Instructions string `json:"instructions,omitempty"`
	// Text is what is compacted, or afterward the summary, if it was asked for.
	Text string `json:"text,omitempty"`
	// Notes are those of the checkpoint, afterward and if text was asked for.
	Notes []string `json:"notes,omitempty"`
}

// HookOutput is what the program may print before a compaction.
type HookOutput struct {
	// Decision is "veto", or empty to go on.
	Decision string `json:"decision"`
	// Instructions are added to those of the compaction.
	Instructions string `json:"instructions"`
	// Notes are added to those of the checkpoint.
	Notes []string `json:"notes"`
}

// maxHookOutput bounds what a program may print.
const maxHookOutput = 256 << 10

// NewHook returns a preserver that runs the program at path, which is looked
// for in PATH if it has no slash.
func NewHook(path string, opts *HookOptions) (*Hook, error) {
	h := new(Hook)
	if opts != nil {
		h.o = *opts
	}
	if h.o.ID == "" {
		h.o.ID = "hook"
	}
	if h.o.Timeout <= 0 {
		h.o.Timeout = 10 * time.Second
	}
	if h.o.MaxText <= 0 {
		h.o.MaxText = 1 << 20
	}
	var err error
	if h.path, err = exec.LookPath(path); err != nil {
		return nil, fmt.Errorf("hook: %w", err)
	}
	return h, nil
}

// ID implements [Preserver].
func (h *Hook) ID() string { return h.o.ID }

// hookGrace is how much later than the program its callback ends.
const hookGrace = time.Second

// CallbackTimeout implements [Deadliner].
func (h *Hook) CallbackTimeout() time.Duration { return h.o.Timeout + hookGrace }

// BeforeRequest implements [Preserver].
func (h *Hook) BeforeRequest(ctx context.Context, c *Call, _ RequestPreview, m PreservationMeta, _ Services) error {
	in := HookInput{
		Hook: "before_compaction", Version: 1, ID: c.ID, Trigger: c.Trigger, Target: c.Target, SessionID: m.SessionID,
		TransactionID: m.TransactionID, RuleID: m.RuleID, Provider: c.Provider, Model: c.Model,
		Messages: c.Region.Len(), Tokens: c.Region.Tokens(), Instructions: c.Instructions,
	}
	if h.o.Text {
		in.Text = regionText(c.Region, h.o.MaxText)
	}
	out, err := h.run(ctx, in)
	if err != nil {
		return err
	}
	var o HookOutput
	if out = bytes.TrimSpace(out); len(out) == 0 {
		return nil
	}
	if json.Unmarshal(out, &o) != nil {
		return errors.New("hook: what the program printed is not the JSON that it may print")
	}
	switch o.Decision {
	case "":
	case "veto":
		return Veto()
	default:
		return errors.New("hook: unknown decision")
	}
	if extra := strings.TrimSpace(o.Instructions); extra != "" {
		c.Instructions = strings.TrimSpace(c.Instructions + "\n" + extra)
	}
	c.Notes = AddNotes(c.Notes, o.Notes...)
	return nil
}

// RequestOpened implements [Preserver]; it does nothing.
func (h *Hook) RequestOpened(context.Context, Call, []Event, PreservationMeta, Services) error {
	return nil
}

// BeforeResponseRelease implements [Preserver]; it changes nothing.
func (h *Hook) BeforeResponseRelease(context.Context, *Checkpoint, ResponsePreview, PreservationMeta, Services) error {
	return nil
}

// AfterResponseRelease implements [AfterResponseReleasePreserver].
func (h *Hook) AfterResponseRelease(ctx context.Context, c Checkpoint, m PreservationMeta, _ Services) error {
	in := HookInput{
		Hook: "after_compaction", Version: 1, ID: c.ID, Trigger: c.Trigger, SessionID: m.SessionID,
		TransactionID: m.TransactionID, RuleID: m.RuleID, Messages: c.Region.Len(), Tokens: c.Region.Tokens(),
	}
	if h.o.Text {
		in.Text, in.Notes = clip(c.Narrative, h.o.MaxText), c.Notes
	}
	_, err := h.run(ctx, in)
	return err
}

// run runs the program once. Its errors do not quote what it printed.
func (h *Hook) run(ctx context.Context, in HookInput) ([]byte, error) {
	input, err := json.Marshal(in)
	if err != nil {
		return nil, errors.New("hook: encode input")
	}
	ctx, cancel := context.WithTimeout(ctx, h.o.Timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.path, h.o.Args...)
	cmd.Dir, cmd.Env = h.o.Dir, h.o.Env
	cmd.Stdin = bytes.NewReader(input)
	out := &limited{max: maxHookOutput}
	cmd.Stdout = out
	cmd.WaitDelay = hookGrace / 2
	ownGroup(cmd)
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return nil, errors.New("hook: the program was stopped at its time limit")
	case errors.As(err, &exit) && exit.ExitCode() == 2 && in.Hook == "before_compaction":
		return nil, Veto()
	case err != nil:
		return nil, errors.New("hook: the program failed")
	case out.over:
		return nil, errors.New("hook: the program printed too much")
	}
	return out.buf.Bytes(), nil
}

// limited keeps so many bytes and takes the rest without keeping it.
type limited struct {
	buf  bytes.Buffer
	max  int
	over bool
}

var _ io.Writer = (*limited)(nil)

func (l *limited) Write(p []byte) (int, error) {
	if room := l.max - l.buf.Len(); len(p) > room {
		l.over = true
		l.buf.Write(p[:room])
	} else {
		l.buf.Write(p)
	}
	return len(p), nil
}

// regionText is the text of the newest messages, at most so many bytes.
func regionText(r Region, most int) string {
	var parts []string
	for i := r.Len() - 1; i >= 0 && most > 0; i-- {
		m := r.messages[i]
		var b strings.Builder
		fmt.Fprintf(&b, "%s: %s\n", m.Role, m.Text())
		for _, p := range m.Parts {
			if c, ok := p.(session.ToolCall); ok {
				fmt.Fprintf(&b, "call %s %s\n", c.Name, c.Arguments)
			}
		}
		s := clip(b.String(), most)
		most -= len(s)
		parts = append(parts, s)
	}
	var b strings.Builder
	for i := len(parts) - 1; i >= 0; i-- {
		b.WriteString(parts[i])
	}
	return b.String()
}
