package summarize

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	uax "github.com/clipperhouse/uax29/v2/sentences"
)

var (
	// intends finds sentences that say what comes next.
	intends = newLexicon(
		"next|next step|next steps|now let|now i|let me|let's|i'll|i will|i am going to|i'm going to|i need to|we need|we should|we will|todo|remaining|still need|still to|still open",
		"als nächstes|noch offen|ich werde|prochaine|ensuite|siguiente|voy a|теперь|далее|дальше",
		"接下来|下一步|现在让|现在我|让我|我将|次に|これから|다음|이제|التالي")
	// decides finds sentences that choose something or rule it out, explains those
	// that give a reason.
	decides = newLexicon(
		"decide|decided|decides|decision|chose|chosen|choose|instead of|rather than|must|agreed|we'll use|we will use|ruled out|not needed",
		"beschlossen|stattdessen|décidé|decidido|decidimos|решил|решили|вместо",
		"决定|改用|而不是|必须|決め|代わりに|결정|قرر")
	explains = newLexicon(
		"because|so that|root cause|turns out",
		"the problem is|the problem was|the issue is|the issue was|the cause is|the cause was|the reason is|the reason was|cause is|cause was",
		"weil|ursache|parce que|porque|потому что",
		"因为|原因|ため|때문|لأن")
	// results finds sentences that say what came of it.
	results = newLexicon(
		"fixed|done|work|works|working|pass|passes|passed|passing|fail|fails|failed|found|added|created|removed|updated|implemented|complete|completed|confirmed|show|shows|returned|now has|now is|now uses",
		"erledigt|behoben|gefunden|corrigé|terminé|arreglado|hecho|готово|исправлен|исправлено",
		"完成|修复|通过|发现|已|できました|完了|修正|완료|수정|تم")
)

// sentences splits a text into its sentences, in any script, at most n of them.
// Code, tables and rules are passed over.
func sentences(text string, n int) []string {
	var out []string
	fence := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") || strings.HasPrefix(line, "~~~") {
			fence = !fence
			continue
		}
		if fence || line == "" || line[0] == '|' || strings.HasPrefix(line, "---") || strings.HasPrefix(line, "<") {
			continue
		}
		line = strings.TrimSpace(strings.TrimLeft(withoutStress(line), "#>*-+ \t"))
		if len(line) > 4000 {
			line = head(line, 4000)
		}
		paired := strings.Count(line, "`")%2 == 0
		said := ""
		for it := uax.FromString(line); it.Next(); {
			said += it.Value()
			if end := it.End(); end < len(line) && (paired && strings.Count(said, "`")%2 != 0 || midWord(line, end)) {
				continue
			}
			s := squash(said)
			if said = ""; hasLetters(s) {
				if out = append(out, s); len(out) >= n {
					return out
				}
			}
		}
	}
	return out
}

// midWord reports whether a line goes on at i without a space, in a name or in
// code: sentences of scripts that write none end in marks of their own.
func midWord(line string, i int) bool {
	return line[i-1] < utf8.RuneSelf && line[i-1] != ' ' && line[i-1] != '\t' && line[i] < utf8.RuneSelf
}

// withoutStress takes the marks of bold text out of a line: a sentence may begin
// or end between them.
func withoutStress(line string) string {
	if !strings.Contains(line, "**") {
		return line
	}
	parts := strings.Split(line, "`")
	for i := 0; i < len(parts); i += 2 { // not in code
		parts[i] = strings.ReplaceAll(parts[i], "**", "")
	}
	return strings.Join(parts, "`")
}

// request returns what a user's text asks, without what a tool of theirs put
// before it: blocks of context, and sections that only list names.
func request(text string) string {
	text = strings.TrimSpace(text)
	for range mostBlocks {
		after, ok := afterBlock(text)
		if !ok || after == "" {
			break
		}
		text = after
	}
	if !strings.HasPrefix(text, "#") {
		return text
	}
	at := 0
	for at < len(text) {
		_, body, _ := strings.Cut(text[at:], "\n")
		end := len(body)
		if i := strings.Index("\n"+body, "\n#"); i >= 0 {
			end = i
		}
		if !onlyNames(body[:end]) {
			if body = strings.TrimSpace(body[:end]); at > 0 && body != "" {
				return body
			}
			return text
		}
		if end == len(body) {
			return text
		}
		at = len(text) - len(body) + end
	}
	return text
}

// mostBlocks is how many blocks of context are looked for at the start of a text.
const mostBlocks = 8

// afterBlock returns what follows the block of context that a text begins with.
func afterBlock(text string) (after string, ok bool) {
	name, rest, ok := strings.Cut(strings.TrimPrefix(text, "<"), ">")
	if !ok || !strings.HasPrefix(text, "<") || strings.ContainsAny(name, "\n/") || !surroundings.in(strings.ReplaceAll(name, "_", " ")) {
		return "", false
	}
	name, _, _ = strings.Cut(name, " ")
	_, after, ok = strings.Cut(rest, "</"+name+">")
	return strings.TrimSpace(after), ok
}

// onlyContext reports whether a text is nothing but blocks of context.
func onlyContext(text string) bool {
	text = strings.TrimSpace(text)
	for range mostBlocks {
		after, ok := afterBlock(text)
		if !ok {
			return false
		}
		if after == "" {
			return true
		}
		text = after
	}
	return false
}

// surroundings finds the names of blocks that are not from the user.
var surroundings = newLexicon("context|environment|system|reminder|ide|editor|attached|attachments|rules|memory")

// onlyNames reports whether a section is empty or only lists names of things.
func onlyNames(body string) bool {
	for line := range strings.Lines(body) {
		item, ok := strings.CutPrefix(strings.TrimSpace(line), "- ")
		if !ok && item != "" {
			return false
		}
		if a, _ := nextLiteral(item, 0); item != "" && (a < 0 || strings.Count(item, " ") > 5) {
			return false
		}
	}
	return true
}

func hasLetters(s string) bool {
	n := 0
	for _, r := range s {
		if unicode.IsLetter(r) {
			if n++; n >= 3 || r >= 0x2E80 {
				return true
			}
		}
	}
	return false
}

// leading returns the first sentences of a text, up to about n bytes.
func leading(text string, n int) string {
	out := ""
	text = request(text)
	if i := strings.Index(text, "\n#"); i > 40 {
		text = text[:i] // up to the next heading
	}
	if i := strings.Index(text, "\n```"); i > 40 {
		text = text[:i]
	}
	for _, s := range sentences(text, 12) {
		if out != "" && len(out)+len(s) > n {
			break
		}
		out = strings.TrimSpace(out + " " + s)
		if len(out) >= n {
			break
		}
	}
	if out == "" {
		out = squash(head(text, n))
	}
	return clipSentence(out, n*3/2)
}

// clipSentence cuts a sentence to about n bytes, between words.
func clipSentence(s string, n int) string {
	if len(s) <= n {
		return s
	}
	cut := head(s, n)
	if i := strings.LastIndexByte(cut, ' '); i > n*2/3 {
		cut = cut[:i]
	}
	return cut + " …"
}

func bullet(s string) string {
	if s = squash(s); s == "" {
		return ""
	}
	return "- " + clipSentence(s, 480)
}

// vocabulary counts in how many texts a word occurs: words that come back, but
// not everywhere, are what a conversation is about.
type vocabulary struct {
	texts int
	df    map[string]int32
}

const (
	vocabularyTexts = 20000
	vocabularyRead  = 600
)

func newVocabulary() *vocabulary { return &vocabulary{df: map[string]int32{}} }

func (v *vocabulary) learn(text string) {
	if v.texts >= vocabularyTexts {
		return
	}
	v.texts++
	for w := range terms(head(text, vocabularyRead)) {
		v.df[w]++
	}
}

// terms returns the words of a text: runs of letters and digits, and pairs of
// characters where a script does not write words apart.
func terms(s string) map[string]bool {
	set := map[string]bool{}
	s = strings.ToLower(s)
	start, prev := -1, rune(0)
	end := func(i int) {
		if start >= 0 && i-start > 2 {
			set[s[start:i]] = true
		}
		start = -1
	}
	for i, r := range s {
		switch {
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar):
			end(i)
			if prev != 0 {
				set[string([]rune{prev, r})] = true
			}
			prev = r
			continue
		case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.Is(unicode.Mn, r):
			if start < 0 {
				start = i
			}
		default:
			end(i)
		}
		prev = 0
	}
	end(len(s))
	return set
}

// score says how much a sentence tells of the conversation.
func (v *vocabulary) score(s string, set map[string]bool) float64 {
	if len(set) == 0 {
		return 0
	}
	keys := make([]string, 0, len(set))
	for w := range set {
		keys = append(keys, w)
	}
	slices.Sort(keys) // sums of floats depend on their order
	sum := 0.0
	for _, w := range keys {
		if df := float64(v.df[w]); df > 1 {
			sum += math.Log(1+df) * math.Log(1+float64(v.texts)/df)
		}
	}
	z := sum / math.Pow(float64(len(set)), 0.7) / 6
	if a, _ := nextLiteral(s, 0); a >= 0 {
		z += 0.8
	}
	if results.in(s) {
		z += 0.8
	}
	if decides.in(s) || explains.in(s) {
		z += 0.5
	}
	if n := utf8.RuneCountInString(s); n < 12 || n > 400 {
		z -= 0.8
	}
	if strings.HasSuffix(s, ":") || strings.HasSuffix(s, "：") {
		z -= 0.6
	}
	return z
}

// best returns up to n sentences of a text in their order: those that tell most
// and do not repeat each other.
func (v *vocabulary) best(text string, n int) []string {
	all := sentences(text, 60)
	if len(all) <= 1 {
		return all
	}
	type scored struct {
		i     int
		terms map[string]bool
		z     float64
	}
	list := make([]scored, len(all))
	for i, s := range all {
		t := terms(s)
		list[i] = scored{i, t, v.score(s, t)}
		if i == 0 {
			list[i].z += 0.4
		}
	}
	slices.SortStableFunc(list, func(a, b scored) int { return cmp.Or(cmp.Compare(b.z, a.z), cmp.Compare(a.i, b.i)) })
	var taken []scored
	for _, c := range list {
		if len(taken) == n {
			break
		}
		if !slices.ContainsFunc(taken, func(t scored) bool { return overlap(t.terms, c.terms) > 0.6 }) {
			taken = append(taken, c)
		}
	}
	slices.SortFunc(taken, func(a, b scored) int { return cmp.Compare(a.i, b.i) })
	out := make([]string, len(taken))
	for i, t := range taken {
		out[i] = all[t.i]
	}
	return out
}

// overlap is the share of the smaller set that is in both.
func overlap(a, b map[string]bool) float64 {
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(a) == 0 {
		return 0
	}
	n := 0
	for w := range a {
		if b[w] {
			n++
		}
	}
	return float64(n) / float64(len(a))
}
