package models

import (
	"regexp"
	"strings"
)

// providerNames are other words for a provider of the file.
var providerNames = map[string]string{
	"amazon-bedrock": "bedrock",
	"google":         "gemini",
	"google-vertex":  "vertexai",
	"moonshotai":     "moonshot",
	"vertex":         "vertexai",
	"vertex_ai":      "vertexai",
	"x-ai":           "xai",
	"z-ai":           "zai",
}

var (
	variant = regexp.MustCompile(`:[a-z][a-z-]*$`)
	// What clouds put around a name: a region and a vendor before it, a
	// revision behind it.
	cloudBefore = regexp.MustCompile(`^(?:(?:us|eu|apac|jp|au|ca|sa|us-gov|global)\.)?(?:anthropic|amazon|meta|mistral|cohere|deepseek|openai|qwen)\.`)
	cloudBehind = regexp.MustCompile(`-v\d+(?::\d+)?$`)
	date        = regexp.MustCompile(`[-@](?:20\d{6}|20\d\d-\d\d-\d\d)$`)
)

// forms lists how a name may be written in the file, closest first. The first
// is the name itself.
func forms(name string) []string {
	name = strings.ToLower(name)
	out := []string{spell(name)}
	add := func(s string) {
		s = spell(s)
		for _, have := range out {
			if have == s {
				return
			}
		}
		out = append(out, s)
	}
	name = variant.ReplaceAllString(name, "")
	add(name)
	name = cloudBefore.ReplaceAllString(name, "")
	name = cloudBehind.ReplaceAllString(name, "")
	add(name)
	if undated := date.ReplaceAllString(name, ""); undated != name {
		add(undated)
		name = undated
	}
	name = strings.TrimSuffix(name, "-latest")
	add(name)
	// Anthropic's aliases of the first of a line: claude-sonnet-4-0.
	if strings.HasPrefix(name, "claude-") {
		add(strings.TrimSuffix(name, "-0"))
	}
	return out
}

// spell is a name without what makes no difference.
func spell(name string) string {
	return strings.NewReplacer(".", "-", "@", "-").Replace(strings.ToLower(name))
}
