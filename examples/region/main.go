// Region is tooling for a stored session: it replaces a region that somebody chose by one checkpoint, shows
// what the model sees before and after, and undoes it.
//
//	go run ./examples/region
//	go run ./examples/region --from 3 --to 9 session.jsonl
//
// Positions count the messages that the model sees, from 0. Without a file it makes a session to work on.
// Nobody has to stop for it: the agent that the file belongs to may be appending meanwhile.
//
// What to look at:
//
//   - balanced: an edge that separates a tool call from its result is moved outward.
//   - run: CompactRegion names the region by the event numbers at its edges, and Undo takes the checkpoint
//     away again. Nothing was deleted in between: the surface is the same, message by message.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/compact/engine"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/store/filestore"
	"github.com/agentcompact/agentcompact/summarize"
	"github.com/agentcompact/agentcompact/toolpairing"
)

func main() {
	from := flag.Int("from", -1, "first message of the region (default: a quarter into the session)")
	to := flag.Int("to", -1, "last message of the region (default: three quarters into it)")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, flag.Arg(0), *from, *to); err != nil {
		fmt.Fprintln(os.Stderr, "region:", err)
		os.Exit(1)
	}
}

// run compacts the messages from through to, both included, of the session in the file, and undoes it.
func run(ctx context.Context, w io.Writer, file string, from, to int) error {
	if file == "" {
		dir, err := os.MkdirTemp("", "region")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		file = filepath.Join(dir, "session.jsonl")
		if err := writeDemo(ctx, file); err != nil {
			return err
		}
		if from < 0 && to < 0 {
			from, to = 7, 12 // both edges separate a call from its result
		}
	}
	s, err := open(ctx, file)
	if err != nil {
		return err
	}
	defer s.Close()
	svc, err := engine.New(summarize.NewExtractive(nil), nil)
	if err != nil {
		return err
	}
	agent := compact.Agent{Session: s}

	before := s.View()
	if before.Len() == 0 {
		return fmt.Errorf("%s has no messages", file)
	}
	fmt.Fprintln(w, "== before")
	show(w, before)

	if from < 0 {
		from = before.Len() / 4
	}
	if to < 0 {
		to = before.Len() * 3 / 4
	}
	if from > to || to >= before.Len() {
		return fmt.Errorf("the region from %d to %d is not within the %d messages", from, to, before.Len())
	}
	start, end, err := balanced(w, before, from, to)
	if err != nil {
		return err
	}
	r, err := svc.CompactRegion(ctx, agent, before.Node(start).Seq, before.Node(end).Seq)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\n== after: %d messages gave way to event %d, %d → %d tokens\n", len(r.Seqs), r.Checkpoint, r.Before, r.After)
	show(w, s.View())
	m, err := s.View().Message(start)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "\n%s\n", m.Text())

	if _, err := svc.Undo(ctx, agent, r.Checkpoint); err != nil {
		return err
	}
	fmt.Fprintln(w, "\n== after undo")
	show(w, s.View())
	was, is := seqs(before), seqs(s.View())
	if len(is) < len(was) || !slices.Equal(was, is[:len(was)]) { // an agent may have appended
		return errors.New("the surface is not what it was: somebody else changed it meanwhile")
	}
	fmt.Fprintf(w, "\nThe surface is what it was. The log has grown from %d to %d events, and holds both.\n", before.Next(), s.View().Next())
	return nil
}

// balanced moves the edges of a region outward until no call is separated from its result.
func balanced(w io.Writer, v session.View, from, to int) (start, end int, err error) {
	x := toolpairing.Of(v)
	for _, cut := range []int{from, to + 1} { // a cut is the place before a message
		if call, id, splits := x.Splits(cut); splits {
			fmt.Fprintf(w, "\nA cut before message %d would separate call %s of event %d from its result.", cut, id, call)
		}
	}
	behind, ok := x.After(to + 1)
	if !ok {
		return 0, 0, errors.New("there is no balanced cut behind the region: a call is still running")
	}
	start, end = x.Before(from), behind-1
	fmt.Fprintf(w, "\nWanted %d to %d, balanced %d to %d.\n", from, to, start, end)
	return start, end, nil
}

func open(ctx context.Context, file string) (*session.Session, error) {
	store, err := filestore.Open(file, nil)
	if err != nil {
		return nil, err
	}
	s, err := session.Open(ctx, store, nil)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return s, nil
}

func seqs(v session.View) []session.Seq {
	out := make([]session.Seq, v.Len())
	for i := range out {
		out[i] = v.Node(i).Seq
	}
	return out
}

// show prints the surface, one line a message: position, event, tokens, role, text.
func show(w io.Writer, v session.View) {
	for i := range v.Len() {
		n := v.Node(i)
		fmt.Fprintf(w, "%4d  #%-4d %5d  %-9s  %s\n", i, n.Seq, n.Tokens, n.Role(), line(v, i))
	}
}

func line(v session.View, i int) string {
	m, err := v.Message(i)
	if err != nil {
		return err.Error()
	}
	words := strings.Fields(m.Text())
	for _, p := range m.Parts {
		if c, ok := p.(session.ToolCall); ok {
			words = append(words, c.Name, c.Arguments)
		}
	}
	text := []rune(strings.Join(words, " "))
	if len(text) > 80 {
		text = append(text[:79], '…')
	}
	return string(text)
}
