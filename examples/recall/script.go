package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/agentcompact/agentcompact/recall"
	"github.com/agentcompact/agentcompact/session"
)

// detail is what gets lost: the number that the question is about.
var detail = tag(147)

func tag(i int) string { return fmt.Sprintf("AT-%05d", 10007+i*7919%90000) }

// past is the conversation so far: an inventory, and work on other things.
func past() []session.Message {
	var inventory strings.Builder
	for i := range 300 {
		fmt.Fprintf(&inventory, "host db-%03d  rack %c%02d  disks %d  asset %s  state ok\n", i, 'A'+rune(i%8), i%40, 4+i%5, tag(i))
	}
	list := []session.Message{
		session.UserText("Read the inventory. We will migrate the databases rack by rack."),
		session.AssistantText("I read the inventory first.", session.ToolCall{ID: "c0", Name: "read_file", Arguments: `{"path":"inventory.txt"}`}),
		session.ToolText("c0", inventory.String()),
		session.AssistantText("There are 300 hosts in eight rows of racks, all of them ok."),
	}
	for i := range 12 {
		id := fmt.Sprintf("c%d", i+1)
		list = append(list,
			session.UserText(fmt.Sprintf("Write the runbook for row %c.", 'A'+rune(i%8))),
			session.AssistantText("", session.ToolCall{ID: id, Name: "write_file", Arguments: fmt.Sprintf(`{"path":"runbook/row-%d.md"}`, i)}),
			session.ToolText(id, fmt.Sprintf("wrote runbook/row-%d.md, %d lines", i, 40+i)),
			session.AssistantText(fmt.Sprintf("The runbook for the row is in runbook/row-%d.md.", i)),
		)
	}
	return list
}

var (
	wanted = regexp.MustCompile(`host db-147 .*?asset (AT-\d+)`)
	found  = regexp.MustCompile(`to read one: history_read (\{"from":\d+\})`)
)

// scripted is the model: it answers from what the request holds, and when that
// is not enough it looks the history up.
func scripted(request []byte) session.Message {
	var req struct {
		Messages []struct{ Role, Content string }
	}
	if err := json.Unmarshal(request, &req); err != nil {
		return session.AssistantText("I cannot read this request.")
	}
	last := req.Messages[len(req.Messages)-1]
	for _, m := range req.Messages {
		if hit := wanted.FindStringSubmatch(m.Content); hit != nil {
			return session.AssistantText("The asset tag of db-147 is " + hit[1] + ".")
		}
	}
	switch {
	case last.Role == "user":
		return session.AssistantText("I do not see it any more; I search the history.",
			session.ToolCall{ID: "r1", Name: recall.ToolSearch, Arguments: `{"query":"db-147"}`})
	case found.MatchString(last.Content):
		return session.AssistantText("It is in an older message; I read that.",
			session.ToolCall{ID: "r2", Name: recall.ToolRead, Arguments: found.FindStringSubmatch(last.Content)[1]})
	}
	return session.AssistantText("I do not know.")
}
