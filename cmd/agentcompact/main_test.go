package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/testdata"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"agentcompact": main,
		"appender":     appender,
	})
}

func TestScripts(t *testing.T) {
	_, err := testdata.Sessions() // whole, or the scripts prove nothing
	require.NoError(t, err)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("SESSIONS", filepath.Join(testdata.Root(), "sessions"))
			return nil
		},
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "json": jsonIs, "files": files, "appendturn": appendTurn, "import": importOwn},
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

// exits runs a program and wants an exit code: exits 3 agentcompact compact x.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var e *exec.ExitError
		if !errors.As(err, &e) {
			ts.Fatalf("%v", err)
		}
		got = e.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// jsonIs looks at the last output: json after.messages = 3, json problems.0.kind
// = orphan_result, json before.tokens > 100. A length is a.len.
func jsonIs(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: json PATH =|<|> VALUE")
	}
	dec := json.NewDecoder(strings.NewReader(ts.ReadFile("stdout")))
	dec.UseNumber()
	var at any
	ts.Check(dec.Decode(&at))
	for key := range strings.SplitSeq(args[0], ".") {
		switch x := at.(type) {
		case map[string]any:
			v, ok := x[key]
			if !ok {
				ts.Fatalf("no field %q in %s", key, args[0])
			}
			at = v
		case []any:
			if key == "len" {
				at = len(x)
				continue
			}
			i, err := strconv.Atoi(key)
			ts.Check(err)
			if i >= len(x) {
				ts.Fatalf("%s has %d elements", args[0], len(x))
			}
			at = x[i]
		default:
			ts.Fatalf("%s: %v has no %q", args[0], at, key)
		}
	}
	got, want := fmt.Sprint(at), strings.Join(args[2:], " ")
	ok := got == want
	if args[1] != "=" {
		a, err := strconv.ParseFloat(got, 64)
		ts.Check(err)
		b, err := strconv.ParseFloat(want, 64)
		ts.Check(err)
		ok = args[1] == "<" && a < b || args[1] == ">" && a > b
	}
	if ok == neg {
		ts.Fatalf("%s is %s, want %s %s", args[0], got, args[1], want)
	}
}

// files wants the current folder to hold exactly the named files, hidden ones
// included.
func files(ts *testscript.TestScript, _ bool, args []string) {
	list, err := os.ReadDir(ts.MkAbs("."))
	ts.Check(err)
	var got []string
	for _, e := range list {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(args, " ") {
		ts.Fatalf("files are %s\nwant      %s", strings.Join(got, " "), strings.Join(args, " "))
	}
}
