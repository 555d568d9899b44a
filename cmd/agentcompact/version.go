package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/agentcompact/agentcompact/session"
)

func (a *app) versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  agentcompact version\n  agentcompact version --json | jq -r .version",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			v, goVersion := "(unknown)", ""
			if info, ok := debug.ReadBuildInfo(); ok {
				v, goVersion = info.Main.Version, info.GoVersion
			}
			if asJSON {
				return a.json(map[string]any{"version": v, "session_format": session.FormatVersion, "go": goVersion})
			}
			_, err := fmt.Fprintf(a.stdout, "agentcompact %s, session format %d, %s\n", v, session.FormatVersion, goVersion)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}
