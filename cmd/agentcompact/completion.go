package main

import "github.com/spf13/cobra"

// completions offers the values of flags that have few; what has no list gets the
// shell's own completion of file names, which suits FILE.
func completions(cmd *cobra.Command) {
	values := map[string][]string{"target": {"steps", "history", "full_replace"}, "role": {"user", "assistant", "tool"}, "to": targetNames()}
	for name, list := range values {
		f := cmd.Flags().Lookup(name)
		if f == nil || f.Value.Type() != "string" {
			continue // recall has a --to that is a seq
		}
		// It fails only for a flag that is not there, or twice.
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp))
	}
	for _, c := range cmd.Commands() {
		completions(c)
	}
}
