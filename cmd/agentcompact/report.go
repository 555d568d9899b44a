package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

var (
	//go:embed page/page.html
	pageHTML string
	//go:embed page/page.css
	pageCSS string
	//go:embed page/page.js
	pageJS string
)

// reported is what report prints with --json.
type reported struct {
	Out string `json:"out"`
	*pageData
}

func (a *app) reportCommand() *cobra.Command {
	var asJSON, full bool
	var conversation, window int
	var out string
	cmd := &cobra.Command{
		Use:   "report FILE",
		Short: "Make one HTML page about a session",
		Long: `report writes one HTML page that needs nothing else: tokens over the session with
its checkpoints, what occupies the window now, the timeline with what each
checkpoint kept and hides, pairing problems, and cost. The page loads nothing,
and nothing in the transcript can run in it.`,
		Example: `  agentcompact report session.jsonl
  agentcompact report -o report.html --window 200000 session.jsonl
  agentcompact report --json session.jsonl | jq .by_tool`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("window") && window <= 0 {
				return usage("--window must be a number of tokens above 0")
			}
			return a.report(cmd.Context(), args[0], out, conversation, window, asJSON, full)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the figures as JSON; the page is written only with -o")
	cmd.Flags().BoolVar(&full, "full", false, "show every message whole, whatever the size of the page")
	cmd.Flags().StringVarP(&out, "output", "o", "", "write the page to `FILE`, - for standard output (default beside the transcript: NAME.html)")
	cmd.Flags().IntVar(&window, "window", 0, "context window of the agent's model in `TOKENS` (default: that of the model, if it is known)")
	conversationFlag(cmd, &conversation)
	return cmd
}

func (a *app) report(ctx context.Context, path, out string, conversation, window int, asJSON, full bool) error {
	a.status("reading " + path)
	in, err := load(ctx, path, conversation, false)
	a.status("")
	if err != nil {
		return err
	}
	defer in.session.Close()
	d, err := makePage(in, window, full)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if out == "" && !asJSON {
		out = strings.TrimSuffix(path, filepath.Ext(path)) + ".html"
	}
	switch {
	case out == "-" && asJSON:
		return usage("--json and -o - both want standard output")
	case out != "":
		page, err := renderPage(d)
		if err != nil {
			return err
		}
		if out == "-" {
			_, err := a.stdout.Write(page)
			return err
		}
		if !free(out) {
			return fmt.Errorf("%s exists already: name another file with -o", out)
		}
		if err := saveNew(out, page); err != nil {
			return err
		}
	}
	if asJSON {
		return a.json(reported{Out: out, pageData: d})
	}
	fmt.Fprintf(a.stdout, "%s: %s, %s\n  written to %s\n", path, count(d.Messages, "message"), count(len(d.Marks), "checkpoint"), out)
	return nil
}

// page is what the template gets.
type page struct {
	*pageData
	CSS template.CSS
	JS  template.JS
	CSP string
}

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"num":  thousands,
	"why":  why,
	"when": when,
	"count": func(n int, thing string) string {
		return strings.Replace(count(n, thing), strconv.Itoa(n), thousands(n), 1)
	},
	"tail": func(s string) string { // the end of a path says more than its beginning
		if r := []rune(s); len(r) > 31 {
			return "…" + string(r[len(r)-30:])
		}
		return s
	},
	"pct":  func(f float64) string { return fmt.Sprintf("%.1f", f) },
	"usd":  func(f float64) string { return fmt.Sprintf("$%.4f", f) },
	"kind": func(s string) string { return strings.ReplaceAll(s, "_", " ") },
}).Parse(pageHTML))

// group is a table of shares.
type group struct {
	Title string
	Rows  []share
}

// Groups are the tables of what occupies the window.
func (d *pageData) Groups() []group {
	return []group{{"By role", d.ByRole}, {"By tool", d.ByTool}, {"By file", d.ByFile}}
}

// Lasted reports whether it is known when the session was.
func (d *pageData) Lasted() bool { return d.To.Sub(d.From) > time.Minute }

// bar is a piece of the bar of roles.
type bar struct{ X, W, Class, Title string }

// Stack is the bar of roles.
func (d *pageData) Stack() []bar {
	var out []bar
	at := 0.0
	for _, s := range d.ByRole {
		out = append(out, bar{percent(at / 100), percent(s.Share / 100), s.Class, fmt.Sprintf("%s: %s tokens, %.1f%%", s.Name, thousands(s.Tokens), s.Share)})
		at += s.Share
	}
	return out
}

// renderPage makes the page. Style and script are allowed by their hash alone,
// so nothing of the transcript can become one, whatever the template does.
func renderPage(d *pageData) ([]byte, error) {
	css, js := strings.TrimSpace(pageCSS), strings.TrimSpace(pageJS)
	p := page{pageData: d, CSS: template.CSS(css), JS: template.JS(js), CSP: fmt.Sprintf(
		"default-src 'none'; script-src '%s'; style-src '%s'; base-uri 'none'; form-action 'none'", hashOf(js), hashOf(css))}
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, p); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func hashOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

func when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04")
}

// thousands writes a number in groups of three.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}
