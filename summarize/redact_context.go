package summarize

import (
	"bytes"
	"encoding/base64"
	"strings"
)

// finder is how a rule finds the bounds of a secret.
type finder = func(s string, a, b int) (int, int, bool)

// notPath leaves paths alone: PWD is also where a shell is.
func notPath(find finder) finder {
	return func(s string, a, b int) (int, int, bool) {
		v, e, ok := find(s, a, b)
		return v, e, ok && strings.IndexByte("/~.", s[v]) < 0
	}
}

// wholeName wants the name to end with the anchor.
func wholeName(find finder) finder {
	return func(s string, a, b int) (int, int, bool) {
		if b < len(s) && wordc(s[b]) {
			return 0, 0, false
		}
		return find(s, a, b)
	}
}

// wordAt returns the bounds of the word of a command at s[i], without its quotes.
func wordAt(s string, i int) (v, e int) {
	for i < len(s) && s[i] == ' ' {
		i++
	}
	v = skipQuote(s, i)
	quote := byte(0)
	if v > i {
		quote = s[v-1]
	}
	e = v
	for e < len(s) && s[e] >= ' ' && s[e] != '\\' && s[e] != '"' && s[e] != quote && (quote != 0 || s[e] != ' ') {
		e++
	}
	return v, e
}

// flagValue is the value of an option of a command.
func flagValue(least int) finder {
	return func(s string, _, b int) (int, int, bool) {
		v, e := wordAt(s, b)
		return v, e, e-v >= least && s[v] != '-' && mixed(s[v:e]) && !stand(s[v:e]) && !strings.ContainsAny(s[v:e], "()[]{}/")
	}
}

// lineBefore returns what stands in the same line before s[a], the end of it.
func lineBefore(s string, a int) string {
	before := s[max(0, a-300):a]
	return before[strings.LastIndexByte(before, '\n')+1:]
}

// curlUser is the password of curl -u name:password.
func curlUser(s string, a, b int) (int, int, bool) {
	if !strings.Contains(lineBefore(s, a), "curl") {
		return 0, 0, false
	}
	v, e := wordAt(s, b)
	n := strings.IndexByte(s[v:e], ':')
	if n < 0 {
		return 0, 0, false
	}
	v += n + 1
	return v, e, e-v >= 4 && !stand(s[v:e])
}

// loginPassword is the option -p of programs that log in.
func loginPassword(s string, a, b int) (int, int, bool) {
	if before := lineBefore(s, a); !strings.HasSuffix(before, "sshpass") && !strings.Contains(before, " login ") {
		return 0, 0, false
	}
	v, e := wordAt(s, b)
	return v, e, e-v >= 4 && s[v] != '-' && !stand(s[v:e])
}

// netrc is the password of "machine m login l password p".
func netrc(s string, a, b int) (int, int, bool) {
	if !atStart(s, a) {
		return 0, 0, false
	}
	i := b
	for _, want := range []string{"", "login", "", "password"} {
		for i < len(s) && s[i] <= ' ' {
			i++
		}
		v := i
		for i < len(s) && s[i] > ' ' {
			i++
		}
		if i == v || want != "" && s[v:i] != want {
			return 0, 0, false
		}
	}
	v, e := wordAt(s, i)
	return v, e, e-v >= 4 && !stand(s[v:e])
}

// awsSecret is the secret that stands soon after the id of its key or its name:
// a word of 40 characters.
func awsSecret(s string, a, b int) (int, int, bool) {
	for b < len(s) && isAlnum(s[b]) {
		b++
	}
	for i := b; i < len(s) && i-b < 80; {
		v := i
		for i < len(s) && (isAlnum(s[i]) || s[i] == '+' || s[i] == '/') {
			i++
		}
		if i-v == 40 && mixed(s[v:i]) && strings.ToLower(s[v:i]) != s[v:i] {
			return v, i, true
		}
		i++
	}
	return 0, 0, false
}

// signature is what a signed URL is opened with.
func signature(s string, _, b int) (int, int, bool) {
	e := b
	for e < len(s) && (base64c(s[e]) || s[e] == '%') && s[e] != '=' {
		e++
	}
	return b, e, e-b >= 32 && mixed(s[b:e])
}

// authorization is a header with a scheme that no other rule knows, or none.
func authorization(s string, _, b int) (int, int, bool) {
	i := skipQuote(s, b)
	if i >= len(s) || s[i] != ':' && s[i] != '=' {
		return 0, 0, false
	}
	for i++; i < len(s) && s[i] == ' '; i++ {
	}
	i = skipQuote(s, i)
	for range 2 {
		e := i
		for e < len(s) && tokenc(s[e]) {
			e++
		}
		switch l := strings.ToLower(s[i:e]); {
		case l == "bearer" || l == "basic":
			return 0, 0, false
		case e-i >= 16:
			return i, e, mixed(s[i:e])
		case e == i || e >= len(s) || s[e] != ' ':
			return 0, 0, false
		}
		i = e + 1 // a scheme
	}
	return 0, 0, false
}

// encodedLogin is a name and a password in base64, as .npmrc and Docker keep them.
func encodedLogin(s string, _, b int) (int, int, bool) {
	i := b
	for i < len(s) && (s[i] == ' ' || s[i] == ':' || s[i] == '=') {
		i++
	}
	v := skipQuote(s, i)
	e := v
	for e < len(s) && base64c(s[e]) {
		e++
	}
	plain, err := base64.StdEncoding.DecodeString(s[v:e])
	return v, e, i > b && e-v >= 8 && err == nil && bytes.IndexByte(plain, ':') > 0
}

// describes reports whether the rest of a name says that its value is about a
// secret and none: password_file, tokenUrl.
func describes(rest string) bool {
	rest = strings.ToLower(rest)
	for _, w := range []string{"path", "file", "dir", "url", "uri", "type", "header", "field", "length", "index", "env", "provider", "days"} {
		if strings.HasSuffix(rest, w) {
			return true
		}
	}
	return false
}

// element returns the content of an XML element whose name has its anchor at a and
// ends at i.
func element(s string, a, i int) (v, e int, ok bool) {
	if i >= len(s) || s[i] != '>' {
		return 0, 0, false
	}
	for a > 0 && (wordc(s[a-1]) || s[a-1] == '.' || s[a-1] == ':') {
		a--
	}
	if a == 0 || s[a-1] != '<' {
		return 0, 0, false
	}
	v = i + 1
	n := strings.IndexAny(s[v:min(len(s), v+512)], "< \n\t")
	if n <= 0 || s[v+n] != '<' {
		return 0, 0, false
	}
	return v, v + n, true
}

// told is a password that a sentence tells: one word that no word is like.
func told(s string, v int) (int, int, bool) {
	if q := skipQuote(s, v); q > v {
		v = q
	}
	e := v
	for e < len(s) && s[e] > ' ' && strings.IndexByte(`"'`+"`,;", s[e]) < 0 {
		e++
	}
	for e > v && s[e-1] == '.' {
		e--
	}
	val := s[v:e]
	return v, e, len(val) >= 8 && mixed(val) && strings.ToLower(val) != val && strings.ToUpper(val) != val && !stand(val)
}

// inUserinfo reports whether the name at s[a] is that of a user in a URL.
func inUserinfo(s string, a int) bool {
	before := s[max(0, a-40):a]
	i := strings.LastIndex(before, "://")
	return i >= 0 && !strings.ContainsAny(before[i+3:], "/ \n\t@:")
}
