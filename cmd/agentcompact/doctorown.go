package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/store/filestore"
	"github.com/agentcompact/agentcompact/wire/doctor"
)

// diagnoseOwn looks at a session of our own format, and repairs a copy of it.
func diagnoseOwn(ctx context.Context, path string, fix bool, out string, opts *doctor.Options) (*diagnosis, error) {
	d := &diagnosis{Format: ownFormat, Findings: []doctor.Finding{}}
	sound, err := filestore.Check(path)
	if err != nil {
		return nil, ownError(path, err)
	}
	if sound.Reason != "" {
		d.Findings = append(d.Findings, doctor.Damage(sound.Bytes, sound.Left, sound.Reason, !sound.Damaged))
	}
	if sound.Damaged || fix {
		err = d.operate(ctx, path, sound, fix, out, opts)
	} else {
		err = withOwn(ctx, path, true, func(s *session.Session) error { return d.look(ctx, s) })
	}
	if err != nil {
		return nil, err
	}
	d.Summary = doctor.Summary(d.Findings)
	return d, nil
}

func (d *diagnosis) look(ctx context.Context, s *session.Session) error {
	list, err := doctor.DiagnoseSession(ctx, s.View(), time.Now())
	d.Findings = append(d.Findings, list...)
	return err
}

// operate looks at a copy of the sound part of the log. With fix it repairs the
// copy and puts it in place, unless nothing was to be done or damage is left.
func (d *diagnosis) operate(ctx context.Context, path string, sound filestore.Salvaged, fix bool, out string, opts *doctor.Options) error {
	name := ""
	create := func() (*os.File, error) { return os.CreateTemp("", tempPrefix+"*") }
	if fix {
		var err error
		if name, err = asked(out, path, ".fixed", filepath.Ext(path)); err != nil {
			return err
		}
		create = func() (*os.File, error) { return createTemp(name) }
	}
	f, err := create()
	if err != nil {
		return fileError(path, err)
	}
	tmp := f.Name()
	defer os.Remove(tmp)
	if err := errors.Join(f.Close(), os.Remove(tmp)); err != nil { // it gives its name
		return fileError(path, err)
	}
	if _, err := filestore.Salvage(path, tmp); err != nil {
		return ownError(path, err)
	}
	err = withOwn(ctx, tmp, false, func(s *session.Session) error {
		if err := d.look(ctx, s); err != nil || !fix {
			return err
		}
		r, err := doctor.RepairSession(ctx, s, time.Now(), opts)
		if err != nil {
			return err
		}
		d.Changes, d.Left = r.Changes, r.Left
		return nil
	})
	if err != nil || !fix {
		return err
	}
	if sound.Reason != "" {
		f := d.Findings[0] // of the damage
		if sound.Damaged && !opts.DropBadLines {
			d.Changes, d.Left = nil, append([]doctor.Finding{f}, d.Left...)
			return nil // a copy without what is behind the damage loses text
		}
		d.Changes = append([]doctor.Change{{Kind: f.Kind, Detail: fmt.Sprintf("left out: the last %d bytes (%s)", sound.Left, sound.Reason)}}, d.Changes...)
	}
	if len(d.Changes) == 0 {
		return nil
	}
	if info, err := os.Stat(path); err == nil {
		if err := os.Chmod(tmp, info.Mode().Perm()); err != nil {
			return fileError(name, err)
		}
	}
	if err := (&placing{}).link(tmp, name); err != nil {
		return err
	}
	syncDir(name)
	d.Out = name
	return nil
}

// withOwn opens a session file for fn.
func withOwn(ctx context.Context, path string, readOnly bool, fn func(*session.Session) error) error {
	store, err := filestore.Open(path, &filestore.Options{ReadOnly: readOnly})
	if err != nil {
		return ownError(path, err)
	}
	s, err := session.Open(ctx, store, sessionOptions())
	if err != nil {
		_ = store.Close()
		return ownError(path, err)
	}
	err = fn(s)
	if cerr := s.Close(); err == nil && cerr != nil {
		err = ownError(path, cerr)
	}
	return err
}
