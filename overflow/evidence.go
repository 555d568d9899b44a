package overflow

import (
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	bodyCap    = 256 << 10 // bytes of a body that are looked at
	textCap    = 16 << 10  // bytes of one text that are looked at
	maxTexts   = 24
	maxCodes   = 64
	messageCap = 500
)

// evidence is what an answer holds that a verdict can rest on.
type evidence struct {
	provider   string // as the caller says
	window     int    // as the caller says
	hostname   string
	status     int
	bodyStatus int      // an HTTP status named in the body
	codes      []string // squashed, see squash
	texts      []string // as the provider wrote them
	plain      []string // the same, see normalize
	empty      bool     // there was a body or an error, and nothing in it
	isError    bool     // the body says by its shape that it is an error
	shape      string   // provider, guessed from the shape of the body
	input      int      // sizes from fields of the body
	limit      int
	finish     string
	usage      Usage
	retryAfter time.Duration
	quiet      int // inside the model's answers
	nested     int // JSON texts inside JSON texts, so far
}

func newEvidence(opts []Option) *evidence {
	ev := &evidence{}
	for _, o := range opts {
		if o != nil {
			o(ev)
		}
	}
	return ev
}

// squash leaves only the lower-case letters and the digits of a code, so that
// context_length_exceeded and ContextLengthExceeded are one.
func squash(s string) string {
	var b strings.Builder
	for i := 0; i < len(s) && b.Len() < 80; i++ {
		c := s[i]
		switch {
		case 'A' <= c && c <= 'Z':
			b.WriteByte(c + 'a' - 'A')
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
			b.WriteByte(c)
		}
	}
	return b.String()
}

// normalize makes texts comparable: lower case, one blank for every run of
// white space, no quotation marks, apostrophes, backticks and backslashes, and
// no thin or fixed spaces inside a number.
func normalize(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	space, digit, inside := false, false, false
	for _, r := range s {
		isDigit := '0' <= r && r <= '9'
		if inside && isDigit {
			space = false
		}
		inside = digit && (r == '\u00a0' || r == '\u202f' || r == '\u2009')
		digit = isDigit
		switch r {
		case '\'', '"', '`', '\\', '’', '‘', '“', '”':
			continue
		case ' ', '\t', '\n', '\r', '\u00a0', '\u202f', '\u2009', '\u3000':
			space = true
			continue
		}
		if space && b.Len() > 0 {
			b.WriteByte(' ')
		}
		space = false
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// clip cuts s to at most n bytes at the border of a character.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

func (ev *evidence) addCode(s string) {
	if len(ev.codes) >= maxCodes || len(s) > 200 {
		return
	}
	c := squash(s)
	if c == "" {
		return
	}
	for _, have := range ev.codes {
		if have == c {
			return
		}
	}
	ev.codes = append(ev.codes, c)
}

// identifier finds what looks like a code in running text: two or more words
// joined by underscores or by capitals.
var identifier = regexp.MustCompile(`[A-Za-z]+(?:_[A-Za-z]+)+|[A-Z][a-z]+(?:[A-Z][a-z]+)+`)

// spaced is a count of tokens with blanks between its thousands.
var spaced = regexp.MustCompile(`\b[1-9]\d{0,2}(?: \d{3})+ (?:tokens?|jetons)\b`)

// namedStatus finds an HTTP status in running text.
var namedStatus = regexp.MustCompile(`(?i)^\W{0,3}([45]\d\d)\b|\b(?:status|http|error|code)(?: status)?(?: code)?["']?\s?[:=]?\s?"?([45]\d\d)\b`)

// fromText takes a text that may be, or may hold, a JSON body.
func (ev *evidence) fromText(s string) {
	s = strings.TrimSpace(s)
	if s == "" {
		return
	}
	if s[0] == '{' || s[0] == '[' {
		if ev.fromJSON(s) {
			return
		}
	}
	ev.addText(s)
	if m := namedStatus.FindStringSubmatch(clip(s, 2000)); m != nil && ev.bodyStatus == 0 {
		ev.bodyStatus = atoi(m[1] + m[2])
	}
	// The text of a client library ends with the body.
	if i := strings.Index(s, `{"`); i > 0 {
		if i > 1 && s[i-1] == '[' {
			i--
		}
		ev.fromJSON(s[i:])
	}
}

func (ev *evidence) addText(s string) {
	if len(ev.texts) >= maxTexts {
		return
	}
	if len(s) > textCap {
		tail := s[len(s)-textCap/4:]
		s = clip(s, textCap*3/4) + " " + strings.ToValidUTF8(tail, "")
	}
	n := spaced.ReplaceAllStringFunc(normalize(s), func(m string) string {
		unit := strings.LastIndexByte(m, ' ')
		return strings.ReplaceAll(m[:unit], " ", "") + m[unit:]
	})
	if n == "" {
		return
	}
	for _, have := range ev.plain {
		if have == n {
			return
		}
	}
	ev.texts = append(ev.texts, s)
	ev.plain = append(ev.plain, n)
	for _, id := range identifier.FindAllString(s, 40) {
		ev.addCode(id)
	}
}

// fromBody takes the body of an answer.
func (ev *evidence) fromBody(body []byte) {
	s := strings.TrimSpace(string(body[:min(len(body), bodyCap)]))
	if s == "" || s == "null" || s == `""` {
		ev.empty = len(ev.texts) == 0
		return
	}
	ev.empty = false
	if strings.HasPrefix(s, "data:") || strings.HasPrefix(s, "event:") {
		ev.fromStream([]byte(s))
		return
	}
	if s[0] == '"' {
		if u, ok := unquote(s); ok {
			s = u
		}
	}
	ev.fromText(s)
}

func atoi(s string) int {
	n := 0
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' || n > 1<<30 {
			return 0
		}
		n = n*10 + int(s[i]-'0')
	}
	return n
}

// hosts are the ends of host names that tell a provider.
var hosts = []struct{ suffix, provider string }{
	{"openai.azure.com", "azure-openai"}, {"services.ai.azure.com", "azure-openai"},
	{"cognitiveservices.azure.com", "azure-openai"}, {"models.inference.ai.azure.com", "github-models"},
	{"models.github.ai", "github-models"}, {"githubcopilot.com", "github-copilot"},
	{"openai.com", "openai"}, {"anthropic.com", "anthropic"}, {"aiplatform.googleapis.com", "vertex"},
	{"generativelanguage.googleapis.com", "google-gemini"}, {"googleapis.com", "google-gemini"},
	{"amazonaws.com", "bedrock"}, {"mistral.ai", "mistral"}, {"groq.com", "groq"}, {"x.ai", "xai"},
	{"deepseek.com", "deepseek"}, {"openrouter.ai", "openrouter"}, {"together.xyz", "together"},
	{"together.ai", "together"}, {"fireworks.ai", "fireworks"}, {"cohere.com", "cohere"}, {"cohere.ai", "cohere"},
	{"cerebras.ai", "cerebras"}, {"moonshot.cn", "moonshot"}, {"moonshot.ai", "moonshot"}, {"kimi.com", "moonshot"},
	{"aliyuncs.com", "dashscope"}, {"z.ai", "z.ai"}, {"bigmodel.cn", "z.ai"}, {"minimax.io", "minimax"},
	{"minimaxi.com", "minimax"}, {"siliconflow.cn", "siliconflow"}, {"siliconflow.com", "siliconflow"},
	{"volces.com", "volcengine"}, {"perplexity.ai", "perplexity"}, {"ai21.com", "ai21"},
	{"nvidia.com", "nvidia"}, {"huggingface.co", "huggingface"}, {"huggingface.cloud", "huggingface"},
	{"cloudflare.com", "cloudflare"}, {"databricks.com", "databricks"}, {"sambanova.ai", "sambanova"},
}

func (ev *evidence) host(h string) {
	h = strings.ToLower(h)
	for _, x := range hosts {
		if h == x.suffix || strings.HasSuffix(h, "."+x.suffix) {
			ev.hostname = x.provider
			return
		}
	}
}

// hostInText finds the host of a quoted address at the head of an error's text,
// as client libraries write it.
func hostInText(s string) string {
	_, rest, ok := strings.Cut(clip(s, 400), "https://")
	if !ok {
		return ""
	}
	end := strings.IndexAny(rest, "/\"' ?")
	if end < 0 {
		end = len(rest)
	}
	u, err := url.Parse("https://" + rest[:end])
	if err != nil {
		return ""
	}
	return u.Hostname()
}
