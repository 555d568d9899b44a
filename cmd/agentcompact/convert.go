package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/store/filestore"
	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/formats"
)

// convertedInfo is what convert prints. Fields may be added, not renamed.
type convertedInfo struct {
	From     string   `json:"from"`
	To       string   `json:"to"`
	Out      string   `json:"out"`
	Messages int      `json:"messages"`
	Lost     []string `json:"lost"`
}

func (a *app) convertCommand() *cobra.Command {
	var asJSON bool
	var conversation int
	var to, out string
	cmd := &cobra.Command{
		Use:   "convert --to FORMAT FILE",
		Short: "Write a transcript in another format",
		Long: `convert writes the live conversation of a transcript in another format and says
what that format cannot hold. The shapes of providers become a request body,
the formats of agents a new session file from which the agent can continue.
The input stays as it is. Formats: ` + strings.Join(targetNames(), ", ") + `.`,
		Example: `  agentcompact convert --to anthropic-messages session.jsonl
  agentcompact convert --to pi -o session.jsonl request.json
  agentcompact convert --to openai-chat -o - session.jsonl | jq .messages`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if to == "" {
				return usage("convert: --to FORMAT is missing: there are %s", strings.Join(targetNames(), ", "))
			}
			if !slices.Contains(targetNames(), to) {
				return usage("convert: no format %q: there are %s", to, strings.Join(targetNames(), ", "))
			}
			if out == "-" && (asJSON || to == ownFormat) {
				return usage("convert: -o - is for one of the other formats, and without --json")
			}
			return a.convert(cmd.Context(), args[0], to, out, conversation, asJSON)
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "the `FORMAT` to write")
	cmd.Flags().StringVarP(&out, "output", "o", "", "the `FILE` to write, - for standard output (default beside the input)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	conversationFlag(cmd, &conversation)
	return cmd
}

func targetNames() []string { return append([]string{ownFormat}, formats.Targets()...) }

func (a *app) convert(ctx context.Context, path, to, out string, conversation int, asJSON bool) error {
	in, err := load(ctx, path, conversation, false)
	if err != nil {
		return err
	}
	defer in.session.Close()
	v := in.session.View()
	info := convertedInfo{From: in.format(), To: to, Messages: v.Len(), Lost: []string{}}
	if to == ownFormat {
		if info.Out, err = asked(out, path, ".agentcompact", ".jsonl"); err != nil {
			return err
		}
		if err := in.writeOwn(ctx, info.Out); err != nil {
			return err
		}
		switch n := in.spanless(v); {
		case n == 1:
			info.Lost = append(info.Lost, "what 1 checkpoint stands for: it can be read in "+path)
		case n > 1:
			info.Lost = append(info.Lost, fmt.Sprintf("what %d checkpoints stand for: it can be read in %s", n, path))
		}
	} else {
		conv := in.conv
		if conv == nil {
			conv = &wire.Conversation{}
		}
		c, err := formats.Convert(ctx, v, conv, to)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		info.Lost = append(info.Lost, c.Lost...)
		if out == "-" {
			info.Out = "-"
			if _, err := a.stdout.Write(c.Data); err != nil {
				return err
			}
		} else if info.Out, err = writeBeside(out, path, "."+to, c.Ext, c.Data); err != nil {
			return err
		}
	}
	if asJSON {
		return a.json(info)
	}
	w := a.stdout
	if out == "-" {
		w = a.stderr
	}
	fmt.Fprintf(w, "%s: %d messages of %s, written as %s\n", info.Out, info.Messages, info.From, info.To)
	if len(info.Lost) > 0 {
		fmt.Fprintf(w, "%s does not hold:\n", info.To)
		for _, l := range info.Lost {
			fmt.Fprintf(w, "  %s\n", l)
		}
	}
	return nil
}

// spanless counts the live checkpoints whose span no log has, since only the
// live conversation of a foreign file is taken over.
func (in *input) spanless(v session.View) (n int) {
	for i := range v.Len() {
		if node := v.Node(i); in.conv != nil && compact.IsCheckpointSource(node.Source()) && !node.IsReplacement() {
			n++
		}
	}
	return n
}

// writeOwn writes the session as a log of our own format.
func (in *input) writeOwn(ctx context.Context, path string) error {
	tmp, err := createTemp(path)
	if err != nil {
		return fileError(path, err)
	}
	_ = tmp.Close()
	defer os.Remove(tmp.Name())
	store, err := filestore.Open(tmp.Name(), nil)
	if err != nil {
		return fileError(path, err)
	}
	var s *session.Session
	if s, err = copySession(ctx, in.session, store); err != nil {
		_ = store.Close()
		return fileError(path, err)
	}
	if err := s.Close(); err != nil {
		return fileError(path, err)
	}
	return (&placing{}).link(tmp.Name(), path)
}

// asked returns the name for a new file: the one that was asked for, or the next
// free one beside the input. No file is ever written over.
func asked(out, path, mark, ext string) (string, error) {
	if out != "" {
		if info, err := os.Stat(out); err == nil && info.IsDir() {
			return "", usage("-o %s is a directory: name a file", out)
		}
		if !free(out) {
			return "", fmt.Errorf("%s exists already: choose another name", out)
		}
		return out, writable(out)
	}
	stem := strings.TrimSuffix(path, filepath.Ext(path))
	for i := 1; i < 10_000; i++ {
		name := stem + mark + ext
		if i > 1 {
			name = fmt.Sprintf("%s%s-%d%s", stem, mark, i, ext)
		}
		if free(name) {
			return name, writable(name)
		}
	}
	return "", fmt.Errorf("no free name beside %s: use -o", path)
}

// writeBeside writes a new file, whole or not at all.
func writeBeside(out, path, mark, ext string, data []byte) (string, error) {
	name, err := asked(out, path, mark, ext)
	if err != nil {
		return "", err
	}
	perm := fs.FileMode(0o600)
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		perm = info.Mode().Perm()
	}
	tmp, err := writeTemp(name, data, perm)
	if err != nil {
		return "", err
	}
	defer os.Remove(tmp)
	if err := (&placing{}).link(tmp, name); err != nil {
		return "", err
	}
	syncDir(name)
	return name, nil
}
