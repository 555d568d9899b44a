package main

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/store/filestore"
)

// appendTurn is what an agent does meanwhile: appendturn FILE TEXT.
func appendTurn(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: appendturn FILE TEXT")
	}
	ctx := context.Background()
	store, err := filestore.Open(ts.MkAbs(args[0]), nil)
	ts.Check(err)
	s, err := session.Open(ctx, store, sessionOptions())
	ts.Check(err)
	_, err = s.Append(ctx, session.UserText(args[1]), session.AssistantText("An answer to: "+args[1]))
	ts.Check(err)
	ts.Check(s.Close())
}

// importOwn makes a session of our own format from a transcript: import
// TRANSCRIPT SESSION.
func importOwn(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: import TRANSCRIPT SESSION")
	}
	ctx := context.Background()
	in, err := load(ctx, ts.MkAbs(args[0]), 1, false)
	ts.Check(err)
	defer in.session.Close()
	store, err := filestore.Open(ts.MkAbs(args[1]), nil)
	ts.Check(err)
	s, err := copySession(ctx, in.session, store)
	ts.Check(err)
	ts.Check(s.Close())
}

// TestEveryVerbHasExamplesAndJSON looks at all commands.
func TestEveryVerbHasExamplesAndJSON(t *testing.T) {
	a := &app{stdout: new(strings.Builder), stderr: new(strings.Builder)}
	without := map[string]bool{"help": true, "mcp": true} // prose, and a protocol that is JSON already
	seen := 0
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Name() == "completion" {
			return
		}
		require.NotEmpty(t, c.Short, c.CommandPath())
		require.NotEmpty(t, c.Example, c.CommandPath())
		if c.HasSubCommands() {
			for _, sub := range c.Commands() {
				visit(sub)
			}
			return
		}
		seen++
		require.Contains(t, c.Example, c.CommandPath())
		if !without[c.Name()] {
			require.NotNil(t, c.Flags().Lookup("json"), "%s has no --json", c.CommandPath())
		}
	}
	visit(a.root())
	require.Greater(t, seen, 10)
}

// TestColors: a terminal only, and NO_COLOR goes before.
func TestColors(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	require.NoError(t, err)
	require.False(t, colored(f), "no terminal")
	require.NoError(t, f.Close())
	a := &app{color: true}
	require.Equal(t, "\x1b[31mx\x1b[0m", a.red("x"))
	require.Empty(t, a.red(""))
	a.color = false
	require.Equal(t, "x", a.red("x"))
	require.Equal(t, "a\uFFFD[31m\tb\n", visible("a\x1b[31m\tb\n"))
	require.Equal(t, "\uFFFDevil", visible("\u202eevil"))
}
