package summarize

import (
	"regexp"
	"strings"

	"github.com/agentcompact/agentcompact/session"
)

var (
	exitStatus = regexp.MustCompile(`(?i)(?:exit(?:ed)?[ _-]?(?:with[ _-])?(?:code|status)|return ?code)["']?\s*[>:=]?\s*(-?\d+)`)
	errorLine  = regexp.MustCompile(`(?i)\b(?:error|fatal|panic|exception|traceback|denied|not found|no such file|cannot|can't|could not|unable to|undefined|failed|failure|fail|invalid|timed out|timeout|refused|unexpected|missing|assert\w*)\b|错误|失败|エラー|失敗|오류|ошибка|fehler|erreur`)
	// an error by itself, whatever the status
	hardError = regexp.MustCompile(`(?m)^(?:Traceback \(most recent call last\)|fatal: |error: |Error: |panic: |\w*(?:Error|Exception): |.{0,80}: command not found|.{0,120}: No such file or directory|FAIL\b|E  )`)
)

// mainArguments name what a call is about.
var mainArguments = []string{"command", "cmd", "script", "file_path", "path", "query", "pattern", "url", "input", "code", "prompt"}

// callTitle is a call in a line: the command, or the tool with its main
// argument.
func callTitle(name, args string) string {
	main := map[string]string{}
	list := ""
	if looksJSON(args) {
		jsonStrings(args, func(key, value string) bool {
			switch first, ok := main[key]; {
			case !ok || isShell(first) && list == "": // "bash", "-lc", and what it runs
				if !ok || value != "-c" && value != "-lc" {
					main[key] = value
				}
			case key == "command" || key == "cmd": // an argument vector
				list += " " + value
			}
			return len(main) < 12
		})
	} else {
		return clipTitle(name + " " + squash(head(args, 200)))
	}
	for _, k := range mainArguments {
		if v := main[k]; v != "" {
			if k == "command" || k == "cmd" {
				return clipTitle(squash(head(v+list, 400)))
			}
			return clipTitle(name + " " + squash(head(v, 400)))
		}
	}
	return clipTitle(name + " " + squash(head(args, 200)))
}

// isShell reports whether a word starts a shell.
func isShell(s string) bool {
	switch s[strings.LastIndexByte(s, '/')+1:] {
	case "bash", "sh", "zsh", "powershell", "pwsh":
		return true
	}
	return false
}

func clipTitle(s string) string {
	if len(s) <= 160 {
		return s
	}
	return head(s, 150) + " …"
}

// failure returns the line that says why the result of a command is a failure;
// false when it is none.
func failure(r session.ToolResult, command string) (string, bool) {
	text := session.TextOf(r.Parts)
	const part = 3000
	start, end := head(text, part), ""
	if len(text) > part {
		end = tail(text[len(start):], part)
	}
	bad := r.IsError
	known, status := false, ""
	for _, s := range []string{head(start, 300), tail(start, 300), tail(end, 300)} {
		if !strings.Contains(s, "xit") && !strings.Contains(s, "ode") && !strings.Contains(s, "XIT") {
			continue
		}
		if m := exitStatus.FindStringSubmatch(s); m != nil {
			known, status = true, m[1]
			bad = bad || m[1] != "0"
			break
		}
	}
	// A long output only mentions one.
	if !bad && (known || len(text) > part || !hard(start)) {
		return "", false
	}
	if words := refusedWith(text); words != "" {
		return head("the user said: "+squash(words), 300), true
	}
	if s := outputOf(text); s != "" { // a record of a run: its lines are inside
		start, end = head(s, part), ""
		if len(s) > part {
			end = tail(s[len(start):], part)
		}
	}
	line := worstLine(start)
	if end != "" {
		if l := worstLine(end); l != "" {
			line = l
		}
	}
	if line == "" {
		for l := range strings.Lines(start) {
			l = recordLine.ReplaceAllString(strings.TrimSpace(l), "")
			if l != "" && !exitStatus.MatchString(l) && !isTag(l) {
				line = l
				break
			}
		}
	}
	switch {
	case line != "":
	case status == "1" && finds(command):
		return "", false
	case status != "":
		line = "exit status " + status // it printed nothing
	default:
		line = squash(head(start, 200))
	}
	line = strings.TrimSpace(closingTag.ReplaceAllString(line, ""))
	return head(squash(line), 300), line != ""
}

// recordLine matches what a tool writes around the output of a command: lines about
// the run, and the names before its streams.
var recordLine = regexp.MustCompile(`^(?:(?:Command|Directory|Exit Code|Signal|Background PIDs|Process Group PGID|Chunk ID|Wall time|Original token count)\b:?\s.*|(?:Error|Stdout|Stderr|Output): \((?:none|empty)\)$|(?:Output|Stdout):\s*)`)

// refusedWith returns what the user said when they refused a call; empty when a
// result is no such thing.
func refusedWith(text string) string {
	text = strings.TrimSpace(text)
	if !strings.HasPrefix(text, "The user doesn't want to ") && !strings.HasPrefix(text, "The user denied ") {
		return ""
	}
	for _, mark := range []string{"the user said:", "provided the following feedback:"} {
		if _, words, ok := strings.Cut(text, mark); ok {
			return strings.TrimSpace(strings.NewReplacer("<feedback>", "", "</feedback>", "").Replace(words))
		}
	}
	return ""
}

// closingTag is the end of the element that an output is wrapped in.
var closingTag = regexp.MustCompile(`\s*</[A-Za-z_-]+>\s*$`)

// outputOf returns what a program printed out of a record of its run; empty when
// the text is none.
func outputOf(text string) string {
	if !looksJSON(text) {
		return ""
	}
	out := ""
	jsonStrings(text, func(key, value string) bool {
		switch key {
		case "output", "stderr", "stdout", "error", "message":
			if strings.TrimSpace(value) != "" {
				out = joinLines(out, value)
			}
		}
		return true
	})
	return out
}

// finds reports whether a command ends in a program that says with status 1 that
// it found nothing, which is an answer.
func finds(command string) bool {
	parts := splitCommands(command)
	words := strings.Fields(parts[len(parts)-1])
	if len(words) > 1 && words[0] == "git" {
		words = words[1:]
	}
	if len(words) == 0 {
		return false
	}
	switch words[0] {
	case "grep", "egrep", "fgrep", "rg", "ag", "ack", "diff", "cmp", "test", "[", "which", "pgrep":
		return true
	}
	return false
}

// interrupted finds results that only say that a call was stopped.
var interrupted = regexp.MustCompile(`(?i)interrupt|cancel|abort|stopped by|user (?:rejected|declined|doesn't want)|doesn't want to (?:proceed|take this action)`)

// isTag reports whether a line is nothing but a tag.
func isTag(l string) bool {
	return len(l) > 2 && l[0] == '<' && strings.IndexByte(l, '>') == len(l)-1
}

// hard reports whether a text has an error whatever the status.
func hard(s string) bool {
	for _, w := range []string{"rror", "xception", "Traceback", "atal: ", "anic: ", "command not found", "No such file", "FAIL", "E  "} {
		if strings.Contains(s, w) {
			return hardError.MatchString(s)
		}
	}
	return false
}

// worstLine is the line of a text that most likely says what went wrong: of a
// stack trace the last one, else the first.
func worstLine(text string) string {
	first, trace := "", ""
	inTrace := false
	for l := range strings.Lines(text) {
		if strings.HasPrefix(l, "Traceback") {
			inTrace = true
			continue
		}
		s := recordLine.ReplaceAllString(strings.TrimSpace(l), "")
		if s == "" || exitStatus.MatchString(s) && len(s) < 40 {
			continue
		}
		if inTrace && l[0] != ' ' && l[0] != '\t' {
			trace, inTrace = s, false
		}
		if first == "" && errorLine.MatchString(s) && len(s) < 400 {
			first = s
		}
	}
	if trace != "" {
		return trace
	}
	return first
}
