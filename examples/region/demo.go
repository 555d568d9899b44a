package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/agentcompact/agentcompact/session"
)

// writeDemo stores a session of four turns. In each of them the model makes two calls at once, so that many
// cuts are not balanced.
func writeDemo(ctx context.Context, file string) error {
	s, err := open(ctx, file)
	if err != nil {
		return err
	}
	defer s.Close()
	for i, service := range []string{"billing", "search", "mail", "login"} {
		config, log := fmt.Sprintf("call_%d_config", i), fmt.Sprintf("call_%d_log", i)
		_, err := s.Append(ctx,
			session.UserText(fmt.Sprintf("Why is the %s service slow? Do not restart it.", service)),
			session.AssistantText("I look at its configuration and its log.",
				session.ToolCall{ID: config, Name: "read_file", Arguments: fmt.Sprintf(`{"path":"%s/config.yaml"}`, service)},
				session.ToolCall{ID: log, Name: "read_file", Arguments: fmt.Sprintf(`{"path":"%s/service.log"}`, service)}),
			session.ToolText(config, fmt.Sprintf("name: %s\nworkers: %d\ntimeout: 30s\n", service, i+2)),
			session.ToolText(log, logOf(service)),
			session.AssistantText(fmt.Sprintf("The %s service waits for its database: its pool of %d connections is full.", service, i+2)))
		if err != nil {
			return err
		}
	}
	return nil
}

func logOf(service string) string {
	var b strings.Builder
	for i := range 30 {
		fmt.Fprintf(&b, "09:%02d:00 INFO %s answered a request in %d ms\n", i, service, 100+37*i)
	}
	fmt.Fprintf(&b, "09:30:00 ERROR %s: no free connection to the database after 30s\n", service)
	return b.String()
}
