package summarize

// RequiredSections are the headings that our own prompts ask for, in order.
// They stay as they are in every language, each on a line of its own after
// "## ", so that a guard can look for them. An empty section says "none".
var RequiredSections = []string{"Goal", "State", "Done", "Failures", "Decisions", "Next"}
