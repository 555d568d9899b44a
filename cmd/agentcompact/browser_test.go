package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// browser is a headless Chromium with one page, spoken to over the pipe of its
// debugging protocol.
type browser struct {
	t       *testing.T
	in      io.Writer
	session string

	mu      sync.Mutex
	next    int
	waiting map[int]chan message
	events  []message
}

type message struct {
	ID        int                       `json:"id,omitempty"`
	SessionID string                    `json:"sessionId,omitempty"`
	Method    string                    `json:"method,omitempty"`
	Params    json.RawMessage           `json:"params,omitempty"`
	Result    json.RawMessage           `json:"result,omitempty"`
	Error     *struct{ Message string } `json:"error,omitempty"`
}

// openBrowser starts Chromium. Where there is none the test is skipped, but for
// CI: there it fails.
func openBrowser(t *testing.T) *browser {
	t.Helper()
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("no Chromium: the report is not tested (apt-get install chromium)")
		}
		t.Skip("no Chromium")
	}
	profile, err := os.MkdirTemp("", "chromium")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(profile) }) // its helpers may still write
	toR, toW, err := os.Pipe()
	require.NoError(t, err)
	fromR, fromW, err := os.Pipe()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), path, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-extensions", "--disable-component-update", "--disable-background-networking", "--remote-debugging-pipe", "--user-data-dir="+profile, "about:blank")
	cmd.ExtraFiles = []*os.File{toR, fromW}
	require.NoError(t, cmd.Start())
	_, _ = toR.Close(), fromW.Close()
	b := &browser{t: t, in: toW, waiting: map[int]chan message{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		r := bufio.NewReaderSize(fromR, 1<<20)
		for {
			line, err := r.ReadBytes(0)
			if err != nil {
				return
			}
			var m message
			if json.Unmarshal(line[:len(line)-1], &m) != nil {
				continue
			}
			b.mu.Lock()
			if c := b.waiting[m.ID]; m.ID > 0 && c != nil {
				c <- m
			} else {
				b.events = append(b.events, m)
			}
			b.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		b.session = ""
		_, _ = b.send("Browser.close", nil)
		_ = cmd.Wait()
		_, _ = toW.Close(), fromR.Close()
		<-done
	})
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.call(domain+".enable", nil, nil)
	}
	return b
}

func (b *browser) send(method string, params any) (chan message, error) {
	raw, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	if params == nil {
		raw = []byte("{}")
	}
	b.mu.Lock()
	b.next++
	m := message{ID: b.next, SessionID: b.session, Method: method, Params: raw}
	c := make(chan message, 1)
	b.waiting[m.ID] = c
	b.mu.Unlock()
	line, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	_, err = b.in.Write(append(line, 0))
	return c, err
}

func (b *browser) call(method string, params, result any) {
	b.t.Helper()
	c, err := b.send(method, params)
	require.NoError(b.t, err)
	select {
	case m := <-c:
		if m.Error != nil {
			require.Fail(b.t, method, m.Error.Message)
		}
		if result != nil {
			require.NoError(b.t, json.Unmarshal(m.Result, result))
		}
	case <-time.After(90 * time.Second):
		require.Fail(b.t, "the browser does not answer", method)
	}
}

// open shows a page and waits until it is there.
func (b *browser) open(path string) {
	b.t.Helper()
	b.mu.Lock()
	b.events = nil
	b.mu.Unlock()
	b.call("Page.navigate", map[string]any{"url": "file://" + path}, nil)
	b.wait(`document.readyState === "complete" && location.protocol === "file:"`)
}

// eval returns the value of an expression as JSON text.
func (b *browser) eval(expr string) string {
	b.t.Helper()
	var out struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	b.call("Runtime.evaluate", map[string]any{"expression": expr, "returnByValue": true}, &out)
	if out.ExceptionDetails != nil {
		require.Fail(b.t, expr, "%s %s", out.ExceptionDetails.Text, out.ExceptionDetails.Exception.Description)
	}
	return string(out.Result.Value)
}

func (b *browser) wait(expr string) {
	b.t.Helper()
	require.Eventually(b.t, func() bool { return b.eval(expr) == "true" }, 60*time.Second, 50*time.Millisecond, expr)
}

// key presses a key; text is what it types, if anything.
func (b *browser) key(key, text string, code int) {
	b.t.Helper()
	for _, kind := range []string{"keyDown", "keyUp"} {
		p := map[string]any{"type": kind, "key": key, "windowsVirtualKeyCode": code}
		if kind == "keyDown" && text != "" {
			p["text"] = text
		}
		b.call("Input.dispatchKeyEvent", p, nil)
	}
}

// size sets the size of the window, and dark mode.
func (b *browser) size(width, height int, dark bool) {
	b.t.Helper()
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}, nil)
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
}

// shoot keeps a picture where AGENTCOMPACT_SCREENSHOTS says, for people.
func (b *browser) shoot(name string) {
	b.t.Helper()
	dir := os.Getenv("AGENTCOMPACT_SCREENSHOTS")
	if dir == "" {
		return
	}
	var shot struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{"format": "png"}, &shot)
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	require.NoError(b.t, err)
	require.NoError(b.t, os.WriteFile(filepath.Join(dir, name+".png"), data, 0o644))
}

// said returns what the page said on the console, and what it asked of the
// network beside itself without being stopped by its policy.
func (b *browser) said() (console, requests []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	stopped := map[string]bool{}
	for _, e := range b.events {
		var p struct{ RequestID, BlockedReason string }
		if e.Method == "Network.loadingFailed" && json.Unmarshal(e.Params, &p) == nil && p.BlockedReason == "csp" {
			stopped[p.RequestID] = true
		}
	}
	for _, e := range b.events {
		switch e.Method {
		case "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded":
			console = append(console, fmt.Sprintf("%s %s", e.Method, e.Params))
		case "Network.requestWillBeSent":
			var p struct {
				RequestID, Type string
				Request         struct{ URL string }
			}
			_ = json.Unmarshal(e.Params, &p)
			if own := p.Type == "Document" && strings.HasPrefix(p.Request.URL, "file://"); !own && !stopped[p.RequestID] {
				requests = append(requests, p.Request.URL)
			}
		}
	}
	return console, requests
}
