package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentcompact/agentcompact/testdata"
	"github.com/agentcompact/agentcompact/wire/doctor"
)

// diagnosedAs runs doctor and returns what it says.
func diagnosedAs(t *testing.T, want int, args ...string) diagnosis {
	t.Helper()
	r := run(t, append([]string{"doctor", "--json"}, args...)...)
	require.Equal(t, want, r.code, r.stderr)
	var d diagnosis
	require.NoError(t, json.NewDecoder(strings.NewReader(r.stdout)).Decode(&d), r.stdout)
	return d
}

const brokenLog = `{"role":"user","content":"go"}
{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]}
{"role":"user","content":"next"}
{"role":"assi`

// A log is repaired into a new file, which has nothing wrong, and leaves nothing
// else behind.
func TestDoctorFixesALog(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(brokenLog), 0o640))
	d := diagnosedAs(t, exitFailed, path)
	require.Len(t, d.Findings, 2)
	require.Empty(t, d.Out)
	d = diagnosedAs(t, 0, "--fix", path)
	require.Equal(t, filepath.Join(dir, "s.fixed.jsonl"), d.Out)
	require.Len(t, d.Changes, 2)
	info, err := os.Stat(d.Out)
	require.NoError(t, err)
	require.EqualValues(t, 0o640, info.Mode().Perm())
	require.Empty(t, diagnosedAs(t, 0, d.Out).Findings)
	require.Empty(t, diagnosedAs(t, 0, "--fix", d.Out).Out)
	names, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, names, 2)
	was, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, brokenLog, string(was))
}

// A document that was cut short is diagnosed and repaired.
func TestDoctorMendsADocument(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"model":"m","messages":[{"role":"user","content":"go"},
{"role":"assistant","content":"yes"},
{"role":"user","content":"and no`), 0o600))
	d := diagnosedAs(t, exitFailed, path)
	require.Equal(t, "openai-chat", d.Format)
	require.Len(t, d.Findings, 1)
	require.Equal(t, doctor.TornRecord, d.Findings[0].Kind)
	d = diagnosedAs(t, 0, "--fix", path)
	require.Len(t, d.Changes, 1)
	out, err := os.ReadFile(d.Out)
	require.NoError(t, err)
	require.Equal(t, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"go\"},\n{\"role\":\"assistant\",\"content\":\"yes\"}]}", string(out))
	require.Empty(t, diagnosedAs(t, 0, d.Out).Findings)

	require.NoError(t, os.WriteFile(path, []byte(`{"model":"m","messages":[{"role":"us`), 0o600))
	r := run(t, "doctor", path)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "get a whole copy")
}

// A folder is repaired in a copy.
func TestDoctorFixesAFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	for name, data := range map[string]string{
		"session/p/ses_1.json":     `{"id":"ses_1","title":"t","time":{"created":1}}`,
		"message/ses_1/msg_1.json": `{"id":"msg_1","sessionID":"ses_1","role":"user","time":{"created":1}}`,
		"part/msg_1/prt_1.json":    `{"id":"prt_1","messageID":"msg_1","type":"text","text":"go"}`,
		"message/ses_1/msg_2.json": `{"id":"msg_2","sessionID":"ses_1","role":"assistant","time":{"created":2}}`,
		"part/msg_2/prt_3.json":    `{"id":"prt_3","messageID":"msg_2","type":"tool","callID":"c","tool":"f","state":{"status":"running","input":{"a":1},"time":{"start":3}}}`,
		"message/ses_1/msg_3.json": `{"id":"msg_3","sessionID":"ses_1","role":"user","time":{"created":4}}`,
		"part/msg_3/prt_4.json":    `{"id":"prt_4","messageID":"msg_3","type":"text","text":"and?"}`,
	} {
		name = filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(data), 0o644))
	}
	before, err := treeState(dir)
	require.NoError(t, err)
	d := diagnosedAs(t, exitFailed, dir)
	require.Len(t, d.Findings, 1)
	d = diagnosedAs(t, 0, "--fix", dir)
	require.Equal(t, dir+".fixed", d.Out)
	require.Len(t, d.Changes, 1)
	require.Equal(t, "part/msg_2/prt_3.json", d.Changes[0].File)
	require.Empty(t, diagnosedAs(t, 0, d.Out).Findings)
	require.Empty(t, diagnosedAs(t, 0, "--fix", d.Out).Out)
	after, err := treeState(dir)
	require.NoError(t, err)
	require.Equal(t, before, after)
	names, err := os.ReadDir(filepath.Dir(dir))
	require.NoError(t, err)
	require.Len(t, names, 2)
	r := run(t, "doctor", "--fix", "-o", dir, dir)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "not changed in place")
}

// TestDoctorOfABigLog takes a log of 48 MB (1 GB with AGENTCOMPACT_FULL) through
// the command: what it needs beyond what the session keeps of every message does
// not grow with the file.
func TestDoctorOfABigLog(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	const kept = 700 // bytes a message: session, links, places
	size, most := 48<<20, int64(80<<20)
	if os.Getenv("AGENTCOMPACT_FULL") == "1" {
		size, most = 1<<30, 300<<20
	}
	path := filepath.Join(t.TempDir(), "big.jsonl")
	messages := bigLog(t, path, size)
	stdout, rss := process(t, "doctor", "--json", path)
	var d diagnosis
	require.NoError(t, json.Unmarshal([]byte(stdout), &d))
	require.Empty(t, d.Findings)
	t.Logf("doctor: %d messages, %d MB for a file of %d MB", messages, rss>>20, size>>20)
	require.Less(t, rss, most+kept*int64(messages))

	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(`{"timestamp":"2026-11-30T10:00:00.000Z","type":"event_msg","payload":{"type":"to`)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	stdout, rss = process(t, "doctor", "--fix", "--json", path)
	require.NoError(t, json.Unmarshal([]byte(stdout), &d))
	require.Len(t, d.Changes, 1)
	require.Empty(t, d.Left)
	t.Logf("doctor --fix: %d MB", rss>>20)
	require.Less(t, rss, most+kept*int64(messages))
}

// Every folder of the samples is said to be as it is.
func TestDoctorOfFolders(t *testing.T) {
	sessions, err := testdata.Sessions()
	require.NoError(t, err)
	n := 0
	for _, s := range sessions {
		if len(s.Files) > 0 {
			n++
			require.Equal(t, "opencode", diagnosedAs(t, 0, s.File()).Format)
		}
	}
	require.Positive(t, n)
}
