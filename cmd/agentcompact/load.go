package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/store/filestore"
	"github.com/agentcompact/agentcompact/tokencount"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/formats"
)

// ownFormat is the name of our own session format.
const ownFormat = "agentcompact"

// Above largeFile bytes memory is spared, see sparing.
const largeFile = 32 << 20

// input is a transcript that was read, as a session.
type input struct {
	path string
	info fs.FileInfo
	// file and conv are nil for a session of our own format.
	file  *wire.File
	conv  *wire.Conversation
	index int // of conv in file
	// tree is set when the transcript is a folder; treeState is what it was.
	tree      wire.TreeWriter
	treeState []byte
	// session is the conversation. entries maps events of it to the entries of
	// conv that they are.
	session *session.Session
	entries entryIndex
	// restored tells that the session came from the log beside the file.
	restored bool
	// reported is what the provider reported for the last request of a foreign
	// file, with what came after; 0 when nothing.
	reported int
	notes    []string
	// mark is what the next free name beside the file has before its
	// extension; empty means ".compact".
	mark string
}

func (in *input) format() string {
	if in.file == nil {
		return ownFormat
	}
	return in.file.Format
}

func (in *input) conversations() int {
	if in.file == nil {
		return 1
	}
	return len(in.file.Conversations)
}

func sessionOptions() *session.Options {
	return &session.Options{Pricer: tokencount.NewPricer(nil)}
}

// load reads the file. conversation counts from 1; 0 means the first one.
func load(ctx context.Context, path string, conversation int, write bool) (*input, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fileError(path, err)
	}
	if info.IsDir() {
		return loadTree(ctx, path, info, conversation)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	if own, err := isOwn(path); err != nil {
		return nil, fileError(path, err)
	} else if own {
		if conversation > 1 {
			return nil, usage("%s has one conversation, not %d", path, conversation)
		}
		return loadOwn(ctx, path, info, write)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fileError(path, err)
	}
	in, err := loadForeign(ctx, path, f, conversation)
	if err != nil {
		_ = f.Close()
	}
	return in, err
}

// loadForeign reads a file of another format. The messages stay in the file,
// which is closed with the session.
func loadForeign(ctx context.Context, path string, file *os.File, conversation int) (*input, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, fileError(path, err)
	}
	if info.Size() > largeFile {
		sparing()
	}
	f, err := formats.Open(ctx, file, info.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	in := &input{path: path, info: info}
	if err := in.choose(f, conversation); err != nil {
		return nil, err
	}
	if err := in.open(ctx, file); err != nil {
		return nil, err
	}
	return in, nil
}

// choose takes one of the file's conversations, from 1; 0 means the first one.
func (in *input) choose(f *wire.File, conversation int) error {
	if conversation == 0 {
		conversation = 1
	}
	if n := len(f.Conversations); conversation < 1 || conversation > n {
		return usage("%s has %d conversations: --conversation must be from 1 to %d", in.path, n, n)
	}
	in.file, in.index, in.conv, in.notes = f, conversation-1, f.Conversations[conversation-1], f.Notes
	return nil
}

// open makes the session of a foreign file: from the log beside it, if that
// matches, or else from the file alone.
//
// Without what its provider reported: that is of requests with prompts and tools
// that the file does not hold. So there is one count, which inspect prints and
// compact goes by; see overhead for what becomes of the report.
func (in *input) open(ctx context.Context, file io.Closer) error {
	if ok, err := in.openSidecar(ctx, file); ok || err != nil {
		return err
	}
	opts := sessionOptions()
	store := wire.NewStore(in.conv, opts.Pricer, &wire.StoreOptions{NoUsage: true})
	s, err := session.Open(ctx, closing{store, file}, opts)
	if err != nil {
		return fmt.Errorf("%s: %w", in.path, err)
	}
	in.session = s
	in.entries = entriesInOrder(store.Seqs())
	return in.report(0)
}

// report sets reported from the newest report of the entries from the given one
// on, which are the last ones on the surface.
func (in *input) report(from int) error {
	v := in.session.View()
	n := in.conv.Len()
	for i := n - 1; i >= from; i-- {
		e, err := in.conv.At(i)
		if err != nil {
			return fmt.Errorf("%s: %w", in.path, err)
		}
		if u := e.Usage; u != nil {
			in.reported = u.Prompt + u.Completion + v.Tokens(v.Len()-n+i+1, v.Len())
			return nil
		}
	}
	return nil
}

// overhead is what a request costs besides what the file holds, as far as the
// provider's report tells.
func (in *input) overhead() int {
	if in.reported == 0 {
		return 0
	}
	return max(in.reported-counted(in.session.View()), 0)
}

// counted is what envelope and surface cost by our own count.
func counted(v session.View) int { return v.EnvelopeTokens() + v.SurfaceTokens() }

func isOwn(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	head := make([]byte, 512)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, err
	}
	return filestore.Detect(head[:n]), nil
}

func loadOwn(ctx context.Context, path string, info fs.FileInfo, write bool) (*input, error) {
	in := &input{path: path, info: info}
	store, err := filestore.Open(path, &filestore.Options{ReadOnly: !write, Cut: func(c filestore.Cut) {
		in.notes = append(in.notes, fmt.Sprintf("%d bytes that a crash had left at the end were cut off", c.Bytes))
	}})
	if err != nil {
		return nil, ownError(path, err)
	}
	s, err := session.Open(ctx, store, sessionOptions())
	if err != nil {
		_ = store.Close()
		return nil, ownError(path, err)
	}
	if torn, ok := store.Torn(); ok && !write {
		in.notes = append(in.notes, fmt.Sprintf("the last %s belong to no whole append (%s): a crash left them, or they are being written; everything before them is shown", count(int(torn.Bytes), "byte"), torn.Reason))
	}
	in.session = s
	return in, nil
}

func ownError(path string, err error) error {
	var damage *filestore.DamageError
	if errors.As(err, &damage) {
		return fmt.Errorf("%s is damaged: %w", path, err)
	}
	return fileError(path, err)
}

// fileError words an error of the file system: what, where, what to do.
func fileError(path string, err error) error {
	var pe *fs.PathError
	var le *os.LinkError
	switch {
	case errors.As(err, &pe):
		err = pe.Err
	case errors.As(err, &le):
		err = le.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s does not exist", path)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%s: no permission: check the owner and mode of the file and of its folder", path)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EFBIG):
		return fmt.Errorf("%s: %w: nothing was written; free some space or name another place with -o", path, err)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("%s: %w: name another place with -o", path, err)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// changed reports whether the file is not what it was when it was read.
func (in *input) changed() (bool, error) {
	if in.tree != nil {
		now, err := treeState(in.path)
		return !bytes.Equal(now, in.treeState), err
	}
	now, err := os.Stat(in.path)
	if err != nil {
		return false, fileError(in.path, err)
	}
	return now.Size() != in.info.Size() || !now.ModTime().Equal(in.info.ModTime()), nil
}

// items returns the surface in terms of the file.
func (in *input) items() ([]wire.Item, error) {
	v := in.session.View()
	h := compact.HistoryAt(v)
	items := make([]wire.Item, v.Len())
	for i := range items {
		n := v.Node(i)
		if e, ok := in.entries.of(n.Seq); ok {
			items[i] = wire.Item{Entry: e}
			continue
		}
		m, err := v.Message(i)
		if err != nil {
			return nil, err
		}
		items[i] = wire.Item{Entry: -1, Message: m}
		if e, ok := in.entryOf(v, n.Seq); ok {
			items[i].Entry = e // the same message, shorter
			continue
		}
		if run, kept, err := v.Run(n.Seq); err == nil && compact.IsCheckpointSource(m.Source) {
			run = slices.DeleteFunc(slices.Clone(run), func(q session.Seq) bool { return slices.Contains(kept, q) })
			items[i].Compaction = in.compaction(v, h, n.Seq, m.Source.Ref, run)
		}
	}
	return items, nil
}

// origin follows shortened tool results back to the message as it was.
func origin(v session.View, q session.Seq) session.Seq {
	for {
		ev, err := v.Event(q)
		if err != nil {
			return q
		}
		m, err := ev.Message()
		if err != nil || m.Source.Form != compact.FormPruned {
			return q
		}
		run, _, err := v.Run(q)
		if err != nil || len(run) != 1 {
			return q
		}
		q = run[0]
	}
}

// entryOf returns the entry of the file that an event is, or is the short form
// of. In a session that was restored from the log, the short form itself may be
// what the file holds.
func (in *input) entryOf(v session.View, q session.Seq) (int, bool) {
	if e, ok := in.entries.of(q); ok {
		return e, true
	}
	for o := origin(v, q); q != o; {
		run, _, err := v.Run(q)
		if err != nil || len(run) != 1 {
			break
		}
		q = run[0]
		if e, ok := in.entries.of(q); ok {
			return e, true
		}
	}
	return 0, false
}

func (in *input) compaction(v session.View, h compact.History, seq session.Seq, ref string, run []session.Seq) *wire.Compaction {
	m, _ := v.Event(seq)
	c := &wire.Compaction{Time: m.Time}
	for _, q := range run {
		if e, ok := in.entryOf(v, q); ok {
			c.Shadowed = append(c.Shadowed, e)
		}
	}
	for i := range h.Attempts {
		a := &h.Attempts[i]
		if a.Start.ID != ref {
			continue
		}
		c.ID, c.Auto = a.Start.ID, a.Start.Trigger.Auto()
		if a.End != nil {
			c.TokensBefore, c.TokensAfter = a.End.Before, a.End.After
		}
		if ev, err := v.Event(a.Summary); err == nil {
			p, err := compact.Decode(ev)
			if sum, ok := p.(compact.SummaryEvent); ok && err == nil {
				c.Narrative = sum.Text
			}
		}
	}
	if c.Time.IsZero() {
		c.Time = time.Now()
	}
	return c
}
