package summarize

import (
	"math"
	"strconv"
	"strings"
)

// A secretRule finds secrets by an anchor: a text that stands in or before every
// secret of its kind. All anchors are looked for in one pass.
type secretRule struct {
	name string
	// anchors are in small letters; fold also finds them in capitals.
	anchors []string
	fold    bool
	// find returns the bounds of the secret whose anchor is at [a, b).
	find func(s string, a, b int) (int, int, bool)
}

type charset func(c byte) bool

func wordc(c byte) bool { return isAlnum(c) || c == '_' || c == '-' }
func base64c(c byte) bool {
	return isAlnum(c) || c == '+' || c == '/' || c == '=' || c == '_' || c == '-'
}
func tokenc(c byte) bool { return base64c(c) || c == '.' || c == '~' }
func upperc(c byte) bool { return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' }
func hexc(c byte) bool   { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' }

// token is a secret that starts with its anchor and goes on for at least least
// characters of a set.
func token(name string, set charset, least int, anchors ...string) secretRule {
	return secretRule{name: name, anchors: anchors, find: func(s string, a, b int) (int, int, bool) {
		if !atStart(s, a) {
			return 0, 0, false
		}
		e := b
		for e < len(s) && set(s[e]) {
			e++
		}
		return a, e, e-b >= least
	}}
}

// random wants the secrets of a rule to look drawn at random: names can begin with
// its anchors, too.
func random(r secretRule) secretRule {
	find := r.find
	r.find = func(s string, a, b int) (int, int, bool) {
		v, e, ok := find(s, a, b)
		return v, e, ok && mixed(s[b:e])
	}
	return r
}

// atStart reports whether a word can begin at s[a]: there is none that it would be
// the middle of. The letters of an escape, such as \n, \u003e or that of a color,
// are none.
func atStart(s string, a int) bool {
	if a == 0 || !isAlnum(s[a-1]) && s[a-1] != '_' {
		return true
	}
	if a >= 2 && s[a-2] == '\\' {
		return strings.IndexByte("nrtbf", s[a-1]) >= 0
	}
	if c := s[a-1]; c == 'm' || c == 'K' { // a color of a terminal, perhaps without its escape
		i := a - 1
		for i > 0 && (s[i-1] >= '0' && s[i-1] <= '9' || s[i-1] == ';') {
			i--
		}
		if i > 0 && s[i-1] == '[' {
			return true
		}
	}
	if a < 6 || s[a-6] != '\\' || s[a-5] != 'u' {
		return false
	}
	_, err := strconv.ParseUint(s[a-4:a], 16, 16)
	return err == nil
}

var secretRules = []secretRule{
	{name: "private-key", anchors: []string{"-----BEGIN"}, find: privateKey},
	token("aws-key", upperc, 12, "AKIA", "ASIA", "AROA", "AIDA"),
	token("github-token", wordc, 20, "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
	token("gitlab-token", wordc, 16, "glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "gloas-", "glft-", "glsoat-", "glagent-", "GR1348941"),
	random(token("api-key", wordc, 16, "sk-", "gsk_", "xai-", "pplx-", "AGE-SECRET-KEY-1")),
	random(token("api-key", isAlnum, 20, "fw_", "r8_")),
	token("stripe-key", wordc, 16, "sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_"),
	token("slack-token", wordc, 10, "xoxa-", "xoxb-", "xoxd-", "xoxe-", "xoxp-", "xoxr-", "xoxs-", "xapp-"),
	token("google-key", wordc, 30, "AIza"),
	token("google-token", tokenc, 20, "ya29.", "GOCSPX-"),
	token("npm-token", isAlnum, 30, "npm_"),
	token("pypi-token", wordc, 30, "pypi-"),
	token("sendgrid-key", tokenc, 40, "SG."),
	token("huggingface-token", isAlnum, 24, "hf_", "api_org_"),
	token("digitalocean-token", hexc, 40, "dop_v1_", "doo_v1_", "dor_v1_"),
	token("shopify-token", hexc, 28, "shpat_", "shpca_", "shppa_", "shpss_"),
	token("vault-token", wordc, 20, "hvs.", "hvb."),
	token("linear-key", isAlnum, 30, "lin_api_"),
	random(token("notion-token", isAlnum, 30, "ntn_", "secret_")),
	token("grafana-token", wordc, 30, "glsa_", "glc_"),
	token("newrelic-key", isAlnum, 20, "NRAK-"),
	token("atlassian-token", base64c, 30, "ATATT3", "ATCTT3"),
	token("databricks-token", hexc, 30, "dapi"),
	token("twilio-key", hexc, 32, "SK"),
	token("mailgun-key", hexc, 30, "key-"),
	token("docker-token", wordc, 20, "dckr_pat_"),
	token("figma-token", wordc, 30, "figd_"),
	token("netlify-token", wordc, 30, "nfp_"),
	token("supabase-key", hexc, 30, "sbp_"),
	token("sentry-token", base64c, 30, "sntrys_"),
	token("rubygems-key", hexc, 40, "rubygems_"),
	token("postman-key", wordc, 40, "PMAK-"),
	token("heroku-key", wordc, 30, "HRKU-"),
	token("langsmith-key", wordc, 30, "lsv2_pt_", "lsv2_sk_"),
	token("tavily-key", wordc, 20, "tvly-"),
	token("pulumi-token", hexc, 30, "pul-"),
	token("doppler-token", isAlnum, 30, "dp.pt.", "dp.st."),
	token("fly-token", base64c, 30, "fm1_", "fm2_"),
	token("terraform-token", wordc, 50, "atlasv1."),
	token("bitbucket-password", isAlnum, 24, "ATBB"),
	token("planetscale-token", tokenc, 30, "pscale_tkn_", "pscale_pw_"),
	{name: "telegram-token", anchors: []string{":AA"}, find: telegram},
	{name: "jwt", anchors: []string{"eyJ"}, find: jwt},
	{name: "webhook", anchors: []string{"hooks.slack.com/services/", "hooks.slack.com/workflows/", "hooks.slack.com/triggers/", "webhook.office.com/webhookb2/", "discord.com/api/webhooks/", "discordapp.com/api/webhooks/"}, find: webhook},
	{name: "url-password", anchors: []string{"://", `:\/\/`}, find: urlPassword},
	{name: "aws-secret", anchors: []string{"AKIA", "ASIA"}, find: awsSecret},
	{name: "aws-secret", anchors: []string{"secret access key"}, fold: true, find: awsSecret},
	{name: "signature", anchors: []string{"?sig=", "&sig=", "x-amz-signature="}, fold: true, find: signature},
	{name: "authorization", anchors: []string{"authorization"}, fold: true, find: authorization},
	{name: "bearer", anchors: []string{"bearer ", "bearer%20"}, fold: true, find: bearer},
	{name: "basic-auth", anchors: []string{"basic "}, fold: true, find: basicAuth},
	{name: "password", anchors: []string{"password", "passwd", "passphrase"}, fold: true, find: assigned(4, false)},
	{name: "password", anchors: []string{"pwd"}, fold: true, find: notPath(assigned(4, false))},
	{name: "password", anchors: []string{"_PASS", "db_pass", "smtp_pass"}, find: wholeName(assigned(4, false))},
	{name: "password", anchors: []string{"passwort", "mot de passe", "contraseña", "senha", "пароль", "密码", "密碼", "パスワード", "비밀번호"}, fold: true, find: assigned(5, true)},
	{name: "password", anchors: []string{"--password ", "--passwd ", "--passphrase ", "--pass "}, find: flagValue(5)},
	{name: "token", anchors: []string{"--token ", "--auth-token ", "--access-token ", "--api-key ", "--apikey ", "--secret "}, find: flagValue(8)},
	{name: "basic-auth", anchors: []string{"_auth", `"auth"`}, find: encodedLogin},
	{name: "token", anchors: []string{"_PAT"}, find: wholeName(assigned(30, true))},
	{name: "password", anchors: []string{" -u ", "--user "}, find: curlUser},
	{name: "password", anchors: []string{" -p "}, find: loginPassword},
	{name: "password", anchors: []string{"machine "}, find: netrc},
	{name: "secret", anchors: []string{"secret", "credential", "accountkey", "accesskey", "access_key", "private_key", "privatekey", "signing_key", "encryption_key"}, fold: true, find: assigned(8, true)},
	{name: "token", anchors: []string{"token"}, fold: true, find: assigned(12, true)},
	{name: "api-key", anchors: []string{"api_key", "apikey", "api-key", "auth_key", "authkey", "auth-key", "app_key"}, fold: true, find: assigned(8, true)},
}

// anchorTable finds anchors by their first two bytes.
var anchorTable = func() (t struct {
	bucket [1 << 16]uint8
	lists  [][]anchorAt
}) {
	t.lists = make([][]anchorAt, 1)
	put := func(c, d byte, a anchorAt) {
		i := int(c)<<8 | int(d)
		if t.bucket[i] == 0 {
			t.bucket[i] = uint8(len(t.lists))
			t.lists = append(t.lists, nil)
		}
		t.lists[t.bucket[i]] = append(t.lists[t.bucket[i]], a)
	}
	for i := range secretRules {
		r := &secretRules[i]
		for _, text := range r.anchors {
			a := anchorAt{r, text}
			if !r.fold {
				put(text[0], text[1], a)
				continue
			}
			for _, c := range []byte{text[0], upperByte(text[0])} {
				for _, d := range []byte{text[1], upperByte(text[1])} {
					if c != text[0] && text[0] == upperByte(text[0]) || d != text[1] && text[1] == upperByte(text[1]) {
						continue
					}
					put(c, d, a)
				}
			}
		}
	}
	return t
}()

type anchorAt struct {
	rule *secretRule
	text string
}

func upperByte(c byte) byte {
	if c >= 'a' && c <= 'z' {
		return c - 32
	}
	return c
}

// findSecrets returns the secrets of a text that the built-in rules know, in
// order and apart from each other.
func findSecrets(s string) []secretAt {
	var found []secretAt
	t := &anchorTable
	for i := 0; i+1 < len(s); i++ {
		b := t.bucket[int(s[i])<<8|int(s[i+1])]
		if b == 0 {
			continue
		}
		for _, a := range t.lists[b] {
			if n := len(a.text); len(s)-i < n || n > 2 && lowerByte(s[i+2]) != lowerByte(a.text[2]) {
				continue
			}
			if at := s[i : i+len(a.text)]; at != a.text && (!a.rule.fold || !strings.EqualFold(at, a.text)) {
				continue
			}
			if x, y, ok := a.rule.find(s, i, i+len(a.text)); ok && x < y {
				found = append(found, secretAt{x, y, a.rule.name})
			}
		}
	}
	return joinSecrets(found)
}

// privateKey is a block from BEGIN … PRIVATE KEY to its end, or as far as it
// looks like one. Line ends may be escaped, and lines numbered.
func privateKey(s string, a, b int) (int, int, bool) {
	head := s[b:min(len(s), b+60)]
	i := strings.Index(head, "PRIVATE KEY")
	if i < 0 || strings.Contains(head[:i], "\n") {
		return 0, 0, false
	}
	const most = 32 << 10
	rest := s[b : b+min(len(s)-b, most)]
	if j := strings.Index(rest, "-----END"); j >= 0 {
		e := b + j + len("-----END")
		if k := strings.Index(s[e:min(len(s), e+60)], "-----"); k >= 0 {
			return a, e + k + 5, true
		}
		return a, e, true
	}
	e := b + i + len("PRIVATE KEY")
	for e < len(s) && (base64c(s[e]) || s[e] == '\n' || s[e] == '\r' || s[e] == '\\' || s[e] == ' ' || s[e] == '\t' || s[e] == '|' || s[e] == ':' || s[e] == ',' || strings.IndexByte("→", s[e]) >= 0) {
		e++
	}
	return a, e, true
}

func jwt(s string, a, b int) (int, int, bool) {
	if !atStart(s, a) || a > 0 && s[a-1] == '-' {
		return 0, 0, false
	}
	e, dots := b, 0
	for e < len(s) && (wordc(s[e]) || s[e] == '.' || s[e] == '=') {
		if s[e] == '.' {
			dots++
		}
		e++
	}
	for e > b && s[e-1] == '.' {
		e--
		dots--
	}
	return a, e, dots >= 1 && e-a >= 30 && strings.IndexByte(s[a:e], '.') > 8
}

// telegram is a number, a colon and 35 characters.
func telegram(s string, a, b int) (int, int, bool) {
	x := a
	for x > 0 && s[x-1] >= '0' && s[x-1] <= '9' {
		x--
	}
	e := b
	for e < len(s) && wordc(s[e]) {
		e++
	}
	return x, e, a-x >= 8 && a-x <= 11 && e-b >= 30
}

func webhook(s string, _, b int) (int, int, bool) {
	e := b
	for e < len(s) && (wordc(s[e]) || s[e] == '/') {
		e++
	}
	return b, e, e-b >= 12
}

// urlPassword is what stands between the colon and the at sign of a URL.
func urlPassword(s string, _, b int) (int, int, bool) {
	colon := -1
	for i := b; i < len(s) && i-b < 512; i++ {
		if i == b && s[i] == '[' { // an address, or a placeholder
			if n := strings.IndexByte(s[i:min(len(s), i+64)], ']'); n > 0 {
				i += n
				continue
			}
		}
		switch c := s[i]; {
		case c == '@':
			if colon < 0 || i == colon+1 || stand(s[colon+1:i]) || strings.HasPrefix(s[i:], "@sha256:") {
				return 0, 0, false
			}
			return colon + 1, i, true
		case c == ':' && colon < 0:
			colon = i
		case c == '/' || c <= ' ' || c == '"' || c == '\'' || c == '`' || c == '\\' || c == '?' && colon < 0 || c == '<' && colon < 0:
			return 0, 0, false
		}
	}
	return 0, 0, false
}

func bearer(s string, _, b int) (int, int, bool) {
	e := b
	for e < len(s) && tokenc(s[e]) {
		e++
	}
	return b, e, e-b >= 16 && mixed(s[b:e])
}

func basicAuth(s string, _, b int) (int, int, bool) {
	e := b
	for e < len(s) && base64c(s[e]) {
		e++
	}
	return b, e, e-b >= 12 && mixed(s[b:e]) && strings.ToLower(s[b:e]) != s[b:e]
}

// assigned is a value assigned to a name that has the anchor in it, in code,
// environment files, JSON, YAML, headers, queries and connection strings.
func assigned(least int, random bool) func(s string, a, b int) (int, int, bool) {
	return func(s string, a, b int) (int, int, bool) {
		i := b
		for i < len(s) && i-b < 40 && wordc(s[i]) {
			i++ // the rest of the name
		}
		if describes(s[b:i]) {
			return 0, 0, false
		}
		if v, e, ok := element(s, a, i); ok {
			return v, e, e-v >= least && mixed(s[v:e]) && !stand(s[v:e])
		}
		i = skipQuote(s, i)
		sep := i
		for i < len(s) && (s[i] == ' ' || s[i] == '\t') {
			i++
		}
		switch {
		case i >= len(s):
			return 0, 0, false
		case s[i] == '=', s[i] == ':', s[i] == ',' && strings.Contains(s[max(0, a-24):a], "define("):
			i++
		case strings.HasPrefix(s[i:], "："):
			i += len("：")
		case !random && strings.HasPrefix(s[i:], "is ") && sep > b-1 && s[sep] == ' ':
			return told(s, i+len("is "))
		default:
			return 0, 0, false
		}
		for i < len(s) && (s[i] == '=' || s[i] == '>') {
			i++
		}
		spaced := sep < len(s) && (s[sep] == ' ' || s[sep] == '\t')
		for i < len(s) && (s[i] == ' ' || s[i] == '\t') {
			i++
		}
		v := skipQuote(s, i)
		quote := byte(0)
		if v > i {
			quote = s[v-1]
		}
		e := v
		for e < len(s) && !endsValue(s[e], quote) {
			e++
		}
		if inUserinfo(s, a) {
			if n := strings.IndexByte(s[v:e], '@'); n >= 0 {
				e = v + n
			}
		}
		val := s[v:e]
		if len(val) < least || len(val) > 512 || stand(val) {
			return 0, 0, false
		}
		if random && !mixed(val) {
			return 0, 0, false
		}
		if quote == 0 && !random && !mixed(val) && (spaced || codeLike(s, e)) {
			return 0, 0, false
		}
		if quote == 0 && strings.ContainsAny(val, "()[]{}") {
			return 0, 0, false
		}
		return v, e, true
	}
}

func skipQuote(s string, i int) int {
	j := i
	for j < len(s) && s[j] == '\\' {
		j++
	}
	if j < len(s) && (s[j] == '"' || s[j] == '\'' || s[j] == '`') {
		return j + 1
	}
	return i
}

func endsValue(c, quote byte) bool {
	switch {
	case c == '\n' || c == '\r' || c == '\\' || c == '"' || c == '`':
		return true
	case quote != 0:
		return c == quote
	}
	return c <= ' ' || c == ',' || c == ';' || c == '&' || c == '\''
}

// codeLike reports whether what stands after a value makes it code.
func codeLike(s string, e int) bool { return e < len(s) && (s[e] == ';' || s[e] == ',') }

// stand reports whether a value only stands for one: a variable, a type, a
// placeholder.
func stand(v string) bool {
	if strings.HasPrefix(v, placeholderOpen) || strings.Trim(v, "*.xX-_#?•") == "" {
		return true
	}
	switch v[0] {
	case '$', '<', '%', '{', '@':
		return true
	}
	l := strings.ToLower(strings.Trim(v, `'"`))
	for _, p := range []string{"process.env", "os.environ", "os.getenv", "env.", "env(", "getenv", "self.", "this.", "config.", "settings.", "args.", "req.", "request.", "data.", "options.", "secrets.", "str(", "your_", "your-", "example_"} {
		if strings.HasPrefix(l, p) {
			return true
		}
	}
	switch l {
	case "string", "str", "text", "bool", "boolean", "true", "false", "null", "none", "nil", "undefined", "int", "number", "any", "bytes", "object", "required", "optional",
		"password", "passwd", "secret", "token", "username", "changeme", "hidden", "redacted", "removed", "empty", "varchar", "char", "field", "input", "value", "type":
		return true
	}
	return false
}

// mixed reports whether a value looks drawn at random: letters and digits, and
// as many different characters as chance would give.
func mixed(v string) bool {
	var n [256]int
	digits, letters := 0, 0
	for i := 0; i < len(v); i++ {
		n[v[i]]++
		switch c := v[i]; {
		case c >= '0' && c <= '9':
			digits++
		case isAlnum(c):
			letters++
		}
	}
	if digits == 0 || letters == 0 {
		return false
	}
	h := 0.0
	for _, k := range n {
		if k > 0 {
			p := float64(k) / float64(len(v))
			h -= p * math.Log2(p)
		}
	}
	return h >= 2.2
}
