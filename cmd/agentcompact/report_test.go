package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/store/filestore"
	"github.com/agentcompact/agentcompact/testdata"
)

// reportOf compacts a shared transcript with the ratios and makes its report.
func reportOf(t *testing.T, name string, ratios ...string) string {
	t.Helper()
	var path string
	all, err := testdata.Sessions()
	require.NoError(t, err)
	for _, s := range all {
		if strings.HasSuffix(s.Path, name) {
			path = place(t, s)
		}
	}
	require.NotEmpty(t, path, name)
	for _, r := range ratios {
		next := compactedTo(t, path, 1, r)
		require.NotEmpty(t, next)
		path = next
	}
	out := filepath.Join(t.TempDir(), "report.html")
	r := run(t, "report", "-o", out, path)
	require.Equal(t, exitOK, r.code, r.stderr)
	return out
}

// TestReportInTheBrowser looks at the reports of four recorded sessions as a
// person would: on a desk and on a phone, in the dark, with the keyboard.
func TestReportInTheBrowser(t *testing.T) {
	b := openBrowser(t)
	for _, c := range []struct {
		name, file string
		ratios     []string
		find       string
	}{
		{"trajectory", "mini-swe-380-messages.traj.json", []string{"0.5", "0.2"}, "returncode"},
		{"claude-code", "claude-code/queue-operations.jsonl", []string{"0.4"}, "the"},
		{"codex", "rollout-long-4aborted.jsonl", []string{"0.3"}, "apply_patch"},
		{"gemini", "gemini/contents-105-messages.json", []string{"0.3"}, "file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.t = t
			b.size(1280, 1600, false)
			b.open(reportOf(t, c.file, c.ratios...))
			light := b.eval(`getComputedStyle(document.body).backgroundColor`)
			b.shoot(c.name + "-desk")

			// The keyboard is enough: search, clear, open a checkpoint.
			b.key("/", "/", 191)
			require.Equal(t, `"q"`, b.eval(`document.activeElement.id`))
			for _, r := range c.find {
				b.key(string(r), string(r), 0)
			}
			b.wait(`document.getElementById("found").textContent !== ""`)
			hits, err := strconv.Atoi(strings.Fields(strings.Trim(b.eval(`document.getElementById("found").textContent`), `"`))[0])
			require.NoError(t, err)
			require.Positive(t, hits, "hidden messages are searched")
			require.Equal(t, strconv.Itoa(hits), b.eval(`[...document.querySelectorAll("details.msg")].filter((d) => d.checkVisibility()).length`), "what matches can be seen, and nothing else")
			b.shoot(c.name + "-search")
			b.key("Escape", "", 27)
			require.Equal(t, `""`, b.eval(`document.getElementById("found").textContent`))
			require.Equal(t, "0", b.eval(`document.querySelectorAll(".miss").length`))
			b.eval(`document.querySelector(".check > summary").focus()`)
			b.key("Enter", "\r", 13)
			require.Equal(t, "true", b.eval(`document.querySelector(".check").open`))
			require.Equal(t, "true", b.eval(`document.querySelector(".check .story").checkVisibility() && document.querySelectorAll(".check .ledger li").length > 0`))
			b.eval(`document.querySelector(".check").scrollIntoView()`)
			b.shoot(c.name + "-checkpoint")

			b.size(1280, 1600, true)
			require.NotEqual(t, light, b.eval(`getComputedStyle(document.body).backgroundColor`))
			b.eval(`scrollTo(0, 0)`)
			b.shoot(c.name + "-dark")
			b.size(390, 844, true)
			b.shoot(c.name + "-phone-dark")
			b.size(360, 780, false)
			require.Equal(t, "true", b.eval(`document.documentElement.scrollWidth <= 360`), "nothing is wider than a phone")
			b.eval(`document.getElementById("open").click()`)
			require.Equal(t, "true", b.eval(`document.documentElement.scrollWidth <= 360`), "with everything open as well")
			require.Equal(t, "true", b.eval(`[...document.querySelectorAll("details")].every((d) => d.open)`))
			b.eval(`document.getElementById("shut").click(); scrollTo(0, 0)`)
			b.shoot(c.name + "-phone")
			require.Equal(t, "0", b.eval(`document.querySelectorAll("details[open]").length`))

			console, requests := b.said()
			require.Empty(t, console)
			require.Empty(t, requests)
		})
	}
}

// attacks are texts that would run if the page let them.
var attacks = []string{
	`</pre></details><script>window.pwned=1</script>`,
	`"><img src=x onerror="window.pwned=1"><svg onload="window.pwned=1">`,
	`</script><script>window.pwned=1</script>`,
	`</style><style>*{display:none}</style><link rel=stylesheet href=http://127.0.0.1:9/x.css>`,
	`<iframe srcdoc="<script>parent.pwned=1</script>"></iframe><a href="javascript:window.pwned=1" id="hook">x</a>`,
	`{{.CSP}}' onclick='window.pwned=1' x='`,
	`<meta http-equiv="refresh" content="0;url=http://127.0.0.1:9/"><base href="http://127.0.0.1:9/">`,
	"\x00\x1b]0;title\x07\u202e\xff<script>window.pwned=1</script>",
}

func hostile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), `<b onmouseover=alert(1)>.jsonl`)
	store, err := filestore.Open(path, nil)
	require.NoError(t, err)
	s, err := session.Open(t.Context(), store, sessionOptions())
	require.NoError(t, err)
	env := session.Envelope{Model: attacks[1], System: []session.Message{{Role: session.RoleSystem, Source: session.Source{Kind: session.SourcePlugin, Plugin: "x"}, Parts: []session.Part{session.Text{Text: attacks[0]}}}}}
	_, err = s.Record(t.Context(), session.SetEnvelope{Envelope: env})
	require.NoError(t, err)
	for round := range 3 {
		for i, x := range attacks {
			id := "c" + strconv.Itoa(round) + strconv.Itoa(i) + x
			_, err := s.Append(t.Context(), session.UserText(x+" please fix "+strings.Repeat("it ", 30)),
				session.AssistantText(x, session.ToolCall{ID: id, Name: x, Arguments: `{"path":` + strconv.Quote("src/"+x+".go") + `}`}),
				session.ToolText(id, "error: "+x+strings.Repeat("\nmore of "+x, 10)), session.AssistantText(x, session.ToolCall{ID: "open" + id, Name: x}))
			require.NoError(t, err)
		}
	}
	require.NoError(t, s.Close())
	r := run(t, "compact", "--ratio", "0.3", path)
	require.Equal(t, exitOK, r.code, r.stderr)
	return path
}

func TestHostileReport(t *testing.T) {
	path := hostile(t)
	out := filepath.Join(t.TempDir(), "report.html")
	r := run(t, "report", "-o", out, path)
	require.Equal(t, exitOK, r.code, r.stderr)
	data, err := os.ReadFile(out)
	require.NoError(t, err)
	page := string(data)
	require.Equal(t, 1, strings.Count(page, "<script"), "ours")
	require.Equal(t, 1, strings.Count(page, "<style"))
	require.Empty(t, regexp.MustCompile(`<(img|iframe|link|base|object|embed|a href="(j|h))`).FindAllString(page, -1))
	require.Empty(t, regexp.MustCompile(`<[^>]*\son\w+=`).FindAllString(page, -1), "no handlers")
	require.Empty(t, regexp.MustCompile(`<[^>]*\sstyle=`).FindAllString(page, -1))

	b := openBrowser(t)
	b.size(1280, 1600, false)
	look := func(path string) (console, requests []string) {
		b.open(path)
		b.eval(`document.getElementById("open").click(); document.querySelectorAll("*").forEach((e) => e.dispatchEvent(new Event("mouseover")))`)
		b.wait(`document.readyState === "complete"`)
		require.Equal(t, `"undefined"`, b.eval(`typeof window.pwned`))
		require.Equal(t, "true", b.eval(`document.querySelector("h1").checkVisibility()`))
		return b.said()
	}
	console, requests := look(out)
	require.Empty(t, console)
	require.Empty(t, requests)
	require.Equal(t, "true", b.eval(`document.querySelectorAll("details.msg").length > 60`), "it is all there")

	// If the template let something through, the policy would not.
	leaky := filepath.Join(t.TempDir(), "leaky.html")
	require.NoError(t, os.WriteFile(leaky, []byte(strings.Replace(page, "<main>", "<main>"+strings.Join(attacks[:5], "<p>"), 1)), 0o644))
	console, requests = look(leaky)
	require.NotEmpty(t, console, "the policy speaks up")
	require.Empty(t, requests)
	// And the page without its policy is caught, so this test can fail.
	open := filepath.Join(t.TempDir(), "open.html")
	weak := regexp.MustCompile(`<meta http-equiv="Content-Security-Policy"[^>]*>`).ReplaceAllString(page, "")
	require.NotEqual(t, page, weak)
	require.NoError(t, os.WriteFile(open, []byte(strings.Replace(weak, "<main>", "<main>"+attacks[1], 1)), 0o644))
	b.open(open)
	b.wait(`window.pwned === 1`)
}

// TestReportFigures holds the figures of the page against inspect.
func TestReportFigures(t *testing.T) {
	for _, s := range corpus(t) {
		r := run(t, "report", "--json", s.File())
		require.Equal(t, exitOK, r.code, r.stderr)
		var d pageData
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &d))
		is := inspected(t, s.File(), 1)
		require.Equal(t, is.Tokens.Total, d.Tokens, s.Path)
		require.Equal(t, d.Tokens, d.Peak, "it only grew: %s", s.Path)
		require.Equal(t, is.Problems, d.Problems)
		sum := 0
		for _, x := range d.ByRole {
			sum += x.Tokens
		}
		require.Equal(t, d.Tokens, sum, s.Path)
	}
}

// TestBigReport: a long session has a page of a size that can be opened.
func TestBigReport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "session.jsonl")
	ownSession(t, path, 300)
	whole := run(t, "report", "-o", "-", path)
	require.Equal(t, exitOK, whole.code, whole.stderr)
	require.False(t, strings.Contains(whole.stdout, "left out to keep this page small"))
	was := pageTotal
	pageTotal = 20 << 10
	defer func() { pageTotal = was }()
	r := run(t, "report", "-o", "-", path)
	require.Equal(t, exitOK, r.code, r.stderr)
	require.Less(t, len(r.stdout), len(whole.stdout)*4/5)
	require.True(t, strings.Contains(r.stdout, "left out to keep this page small"))
	full := run(t, "report", "--full", "-o", "-", path)
	require.Equal(t, len(whole.stdout), len(full.stdout))
}
