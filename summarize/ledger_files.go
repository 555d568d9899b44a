package summarize

import (
	"regexp"
	"slices"
	"strings"

	"github.com/agentcompact/agentcompact/session"
)

// didOf tells from the name of a tool what it does to files; empty when it does
// not say.
func didOf(tool string) string {
	t := strings.ToLower(tool)
	has := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(t, w) {
				return true
			}
		}
		return false
	}
	switch {
	case has("notebook") && has("edit", "write", "insert"):
		return "changed"
	case has("todo", "plan", "memory", "note", "list_dir", "list_files", "search", "grep", "glob", "fetch", "http", "browser"):
		return ""
	case has("delete", "remove"):
		return "deleted"
	case has("create", "new_file"):
		return "created"
	case has("write", "edit", "replace", "patch", "update", "insert", "modify", "append", "apply_diff", "save"):
		return "changed"
	case has("read", "view", "open", "cat", "load"):
		return "read"
	}
	return ""
}

// pathKeys are the arguments that name a file.
var pathKeys = map[string]bool{
	"file_path": true, "filepath": true, "filePath": true, "path": true, "file": true, "filename": true, "target_file": true,
	"absolute_path": true, "relative_path": true, "notebook_path": true, "relative_workspace_path": true, "paths": true, "targetFile": true, "notebookPath": true, "old_path": true, "new_path": true,
}

// fileCalls calls f for every file that a call names.
func fileCalls(c session.ToolCall, carry bool, f func(path, did string)) {
	if c.Custom || !looksJSON(c.Arguments) {
		patchFiles(c.Arguments, f)
		return
	}
	did := didOf(c.Name)
	sub := "" // the command of an editor tool with several
	jsonStrings(c.Arguments, func(key, value string) bool {
		switch {
		case pathKeys[key] && isPath(value):
			d := did
			if d == "" && carry {
				d = "read"
			}
			switch sub {
			case "view":
				d = "read"
			case "create":
				d = "created"
			case "str_replace", "insert", "undo_edit":
				d = "changed"
			}
			if d != "" {
				f(value, d)
			}
		case key == "command" || key == "cmd" || key == "script" || key == "input" || key == "patch" || key == "patchText":
			switch value {
			case "view", "create", "str_replace", "insert", "undo_edit":
				sub = value
			default:
				if isPatch(value) {
					patchFiles(value, f)
				} else if strings.IndexByte(value, ' ') > 0 {
					shellFiles(value, f)
				}
			}
		}
		return true
	})
}

// textCall matches a call that an agent without tools of its provider writes into
// its text, with the file that it names: Cline's.
var textCall = regexp.MustCompile(`<(write_to_file|replace_in_file|read_file|apply_diff|insert_content)>\s*<path>([^<>\n]+)</path>`)

// textFiles calls f for every file that a call in a text names.
func textFiles(text string, f func(path, did string)) {
	if !strings.Contains(text, "<path>") {
		return
	}
	for _, m := range textCall.FindAllStringSubmatch(text, -1) {
		if path := strings.TrimSpace(m[2]); isPath(path) {
			f(path, didOf(m[1]))
		}
	}
}

// isPatch reports whether a text is a patch, or a command that feeds one to a
// program.
func isPatch(s string) bool {
	return strings.Contains(s, "*** Begin Patch") || strings.HasPrefix(s, "diff --git") || strings.HasPrefix(s, "--- ") ||
		strings.Contains(s, "\n+++ ") && strings.Contains(s, "\n--- ") && (strings.Contains(s, "patch") || strings.Contains(s, "git apply"))
}

func isPath(s string) bool {
	return s != "" && len(s) < 400 && !strings.ContainsAny(s, "\n\t<>|*?\"") && !strings.Contains(s, "://")
}

// saysCreated reports whether a result says that its call made a new file.
func saysCreated(r session.ToolResult) bool {
	s := strings.ToLower(head(session.TextOf(r.Parts), 120))
	return strings.Contains(s, "created") || strings.Contains(s, "new file")
}

// patchFiles reads the files of a patch: the format of apply_patch, or a
// unified diff.
func patchFiles(text string, f func(path, did string)) {
	if !strings.Contains(text, "*** ") && !strings.Contains(text, "+++ ") {
		return
	}
	old := ""
	eachLine(text, func(line string) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "*** Add File: "):
			f(line[len("*** Add File: "):], "created")
		case strings.HasPrefix(line, "*** Update File: "):
			f(line[len("*** Update File: "):], "changed")
		case strings.HasPrefix(line, "*** Delete File: "):
			f(line[len("*** Delete File: "):], "deleted")
		case strings.HasPrefix(line, "*** Move to: "):
			f(line[len("*** Move to: "):], "created")
		case strings.HasPrefix(line, "--- "):
			old = diffPath(line[4:])
		case strings.HasPrefix(line, "+++ ") && old != "":
			switch path := diffPath(line[4:]); {
			case path == "/dev/null":
				f(old, "deleted")
			case old == "/dev/null":
				f(path, "created")
			case isPath(path):
				f(path, "changed")
			}
			old = ""
		}
	})
}

func diffPath(s string) string {
	if i := strings.IndexByte(s, '\t'); i >= 0 {
		s = s[:i]
	}
	s = strings.TrimSpace(s)
	if strings.HasPrefix(s, "a/") || strings.HasPrefix(s, "b/") {
		s = s[2:]
	}
	return s
}

// shellFiles reads the files that a shell command touches, as far as simple
// reading can tell.
func shellFiles(cmd string, f func(path, did string)) {
	if i := strings.Index(cmd, "<<"); i >= 0 { // what follows is the text of a file
		line, rest, _ := strings.Cut(cmd[i:], "\n")
		end := strings.Trim(strings.TrimLeft(strings.Fields(line + " x")[0], "<-"), `'"`)
		defer func() {
			if j := strings.Index(rest, "\n"+end); end != "" && j >= 0 {
				shellFiles(rest[j+1+len(end):], f)
			}
		}()
		cmd = cmd[:i] + " " + afterWord(line)
	}
	for _, part := range splitCommands(cmd) {
		words := shellWords(part)
		for len(words) > 0 && (strings.Contains(words[0], "=") || words[0] == "sudo" || words[0] == "env" || words[0] == "time") {
			words = words[1:]
		}
		if len(words) == 0 {
			continue
		}
		for i, w := range words {
			w = strings.TrimPrefix(w, "1")
			if (w == ">" || w == ">>") && i+1 < len(words) {
				shellFile(words[i+1], "changed", f)
			} else if to := strings.TrimLeft(w, ">"); len(w) > len(to) && to != "" && to[0] != '&' && to[0] != '(' {
				shellFile(to, "changed", f)
			}
		}
		args, flags := shellArgs(words[1:])
		switch words[0] {
		case "rm", "unlink":
			for _, a := range args {
				shellFile(a, "deleted", f)
			}
		case "git":
			switch {
			case len(args) > 1 && args[0] == "rm":
				for _, a := range args[1:] {
					shellFile(a, "deleted", f)
				}
			case len(args) == 3 && args[0] == "mv":
				shellFile(args[1], "deleted", f)
				shellFile(args[2], "created", f)
			case len(args) > 1 && (args[0] == "restore" || args[0] == "checkout" && slices.Contains(words, "--")):
				shellFile(args[len(args)-1], "changed", f)
			}
		case "curl", "wget":
			for i, w := range words[:len(words)-1] {
				if w == "-o" || w == "-O" && words[0] == "wget" || w == "--output" || w == "--output-document" {
					shellFile(words[i+1], "created", f)
				}
			}
		case "touch":
			for _, a := range args {
				shellFile(a, "created", f)
			}
		case "mv":
			if len(args) == 2 {
				shellFile(args[0], "deleted", f)
				shellFile(args[1], "created", f)
			}
		case "cp":
			if len(args) == 2 {
				shellFile(args[1], "created", f)
			}
		case "tee":
			for _, a := range args {
				shellFile(a, "changed", f)
			}
		case "sed", "perl":
			if len(args) > 0 && strings.Contains(args[len(args)-1], ".") {
				did := "read"
				if strings.Contains(flags, "i") {
					did = "changed"
				}
				shellFile(args[len(args)-1], did, f)
			}
		case "cat", "head", "tail", "less", "nl":
			for _, a := range args {
				shellFile(a, "read", f)
			}
		}
	}
}

func afterWord(line string) string {
	if i := strings.IndexByte(line, ' '); i >= 0 {
		return line[i:]
	}
	return ""
}

// splitCommands splits at ; && || | and line ends outside of quotes.
func splitCommands(cmd string) []string {
	var out []string
	quote := byte(0)
	start := 0
	for i := 0; i < len(cmd); i++ {
		switch c := cmd[i]; {
		case quote != 0:
			if c == '\\' && quote == '"' {
				i++
			} else if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == ';' || c == '\n' || c == '|' || c == '&' && i+1 < len(cmd) && cmd[i+1] == '&':
			out = append(out, cmd[start:i])
			for i+1 < len(cmd) && (cmd[i+1] == '&' || cmd[i+1] == '|') {
				i++
			}
			start = i + 1
		}
	}
	return append(out, cmd[start:])
}

// shellWords splits a command at blanks outside of quotes.
func shellWords(s string) []string {
	var out []string
	quote, start := byte(0), -1
	for i := 0; i < len(s); i++ {
		c := s[i]
		if quote == 0 && (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
			if start >= 0 {
				out = append(out, s[start:i])
			}
			start = -1
			continue
		}
		if start < 0 {
			start = i
		}
		switch {
		case quote != 0:
			if c == '\\' && quote == '"' {
				i++
			} else if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '\\':
			i++
		}
	}
	if start >= 0 {
		out = append(out, s[start:])
	}
	return out
}

func shellArgs(words []string) (args []string, flags string) {
	for _, w := range words {
		switch {
		case w == ">" || w == ">>" || strings.HasPrefix(w, "2>") || w == "1>" || w == "<":
			return args, flags
		case strings.HasPrefix(w, "-"):
			flags += strings.TrimLeft(w, "-")
		case strings.HasPrefix(w, ">"):
		default:
			args = append(args, w)
		}
	}
	return args, flags
}

func shellFile(w, did string, f func(path, did string)) {
	w = strings.Trim(w, `'"`)
	if w == "" || w[0] == '-' || w[0] == '$' || strings.ContainsAny(w, "*?{}()$`&=,;<>\\") || strings.Trim(w, "0123456789") == "" || strings.HasPrefix(w, "/dev/") || strings.HasSuffix(w, ":") {
		return
	}
	if isPath(w) && (strings.ContainsAny(w, "./_") || did != "read") {
		f(w, did)
	}
}
