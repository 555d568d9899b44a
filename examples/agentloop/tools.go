package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/agentcompact/agentcompact/session"
)

const (
	commandTimeout = 10 * time.Second
	maxResult      = 32 << 10 // bytes of a result
)

// commands are those that the model may run. None of them writes, or starts another program.
var commands = []string{"ls", "wc", "grep", "head", "tail"}

// sandbox is a folder with the tools that work in it.
type sandbox struct{ root *os.Root }

func openSandbox(dir string) (*sandbox, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &sandbox{root}, nil
}

func (s *sandbox) close() error { return s.root.Close() }

func toolDefinitions() []session.Tool {
	return []session.Tool{
		{
			Name: "read_file", Description: "Returns the text of a file.",
			Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`),
		},
		{
			Name: "run", Description: "Runs a command without a shell: " + strings.Join(commands, ", ") + ".",
			Schema: json.RawMessage(`{"type":"object","properties":{"args":{"type":"array","items":{"type":"string"}}},"required":["args"]}`),
		},
	}
}

// call runs a tool and returns its result. What goes wrong is a result, too: the model reads it.
func (s *sandbox) call(ctx context.Context, c session.ToolCall) session.Message {
	text, err := s.dispatch(ctx, c)
	if err != nil {
		text = strings.TrimSpace(text + "\nerror: " + err.Error())
	}
	if len(text) > maxResult {
		text = strings.ToValidUTF8(text[:maxResult], "") + "\n[cut here]"
	}
	return session.Message{
		Role:   session.RoleTool,
		Source: session.Source{Kind: session.SourceTool},
		Parts: []session.Part{session.ToolResult{
			CallID: c.ID, Name: c.Name, Parts: []session.Part{session.Text{Text: text}}, IsError: err != nil,
		}},
	}
}

func (s *sandbox) dispatch(ctx context.Context, c session.ToolCall) (string, error) {
	var in struct {
		Path string   `json:"path"`
		Args []string `json:"args"`
	}
	if err := json.Unmarshal([]byte(c.Arguments), &in); err != nil {
		return "", fmt.Errorf("arguments: %w", err)
	}
	switch c.Name {
	case "read_file":
		return s.read(in.Path)
	case "run":
		return s.run(ctx, in.Args)
	}
	return "", fmt.Errorf("no tool %q", c.Name)
}

// read reads through the root, which no path and no link leads out of.
func (s *sandbox) read(path string) (string, error) {
	f, err := s.root.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxResult+1))
	return string(text), err
}

func (s *sandbox) run(ctx context.Context, args []string) (string, error) {
	if len(args) == 0 || !slices.Contains(commands, args[0]) {
		return "", fmt.Errorf("only these commands may be run: %s", strings.Join(commands, ", "))
	}
	for _, arg := range args[1:] {
		if option := strings.HasPrefix(arg, "-"); option && strings.Contains(arg, "/") || !option && arg != "" && !filepath.IsLocal(arg) {
			return "", fmt.Errorf("%q leads out of the folder", arg)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = s.root.Name()
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C"} // no keys
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}
