package summarize

import "strings"

// ruleWords are words by which people state rules, decisions and corrections.
var ruleWords = newLexicon(
	"must|mustn't|never|always|don't|dont|do not|only|should|shouldn't|shall|instead|prefer|avoid|make sure|ensure|critical|important|rule|rules|remember|forget|constraint|require|requires|required|no longer|stop|wrong|actually|keep in mind|deadline",
	"niemals|nie|immer|muss|müssen|darf|dürfen|nicht|statt|stattdessen|wichtig|bitte",
	"jamais|toujours|doit|ne pas|plutôt|nunca|siempre|debe|no debe|importante|sempre|deve|não|mai",
	"никогда|всегда|нельзя|должен|должна|нужно|не надо",
	"必须|不要|禁止|务必|只能|记住|不能|应该|别|必ず|しないで|ください|べき|반드시|하지 마|하지마|يجب|دائما|لا ت")

// orders are words by which tool output talks to the reader of a transcript.
// Such lines are not quoted as facts.
var orders = newLexicon(
	"ignore all|ignore previous|ignore the above|ignore any|ignore your|disregard|override|new instructions|your instructions|you must now|you are now|when you summarize|when summarizing|in your summary",
	"忽略之前|忽略以上|忽略所有|无视|以前の指示|игнорируй")

// isRule reports whether a text states a constraint, a decision or a
// correction.
func isRule(s string) bool { return ruleWords.in(head(s, 4000)) }

// trivial reports whether a text of the user only says to go on.
func trivial(s string) bool {
	if len(s) > 40 {
		return false
	}
	s = strings.ToLower(strings.Trim(squash(s), ".!? "))
	switch s {
	case "ok", "okay", "yes", "y", "no", "go", "go on", "continue", "next", "thanks", "thank you", "proceed", "好", "继续", "好的", "ja", "weiter", "oui", "да", "はい", "続けて", "keep going":
		return true
	}
	return false
}
