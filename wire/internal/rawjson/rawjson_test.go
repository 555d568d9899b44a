package rawjson

import (
	"encoding/json"
	"testing"
)

func TestObject(t *testing.T) {
	const in = `{"b": 1.50,"a":{"x" : [1, 2]},"u":"\u00e9<&","b2":12345678901234567890}`
	o, err := Parse([]byte(in))
	if err != nil {
		t.Fatal(err)
	}
	o.Set("a", "<new>")
	o.Set("z", json.RawMessage(nil))
	if got, want := string(o.Bytes()), `{"b":1.50,"a":"<new>","u":"\u00e9<&","b2":12345678901234567890,"z":null}`; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	c := o.Clone()
	c.Set("b", 2)
	c.Delete("u")
	if string(o.Get("b")) != "1.50" || c.Get("u") != nil || o.Get("u") == nil {
		t.Errorf("a clone shares members: %s", o.Bytes())
	}
	if got := string(Object(nil).Bytes()); got != "{}" {
		t.Errorf("empty object is %s", got)
	}
}

// Members of one name, in any letter case, are the one that encoding/json reads.
func TestNamesTwice(t *testing.T) {
	const in = `{"content":1,"x":0,"Content":2,"conten\u0074":3,"CONTENT":4,"y":0}`
	o, err := Parse([]byte(in))
	if err != nil {
		t.Fatal(err)
	}
	var s struct{ Content json.RawMessage }
	if err := json.Unmarshal([]byte(in), &s); err != nil || string(s.Content) != string(o.Get("content")) {
		t.Errorf("%s, want %s", o.Get("content"), s.Content)
	}
	c := o.Clone()
	c.Set("content", 5)
	if got := string(c.Bytes()); got != `{"x":0,"content":5,"y":0}` {
		t.Error(got)
	}
	o.Delete("content")
	if got := string(o.Bytes()); got != `{"x":0,"y":0}` {
		t.Error(got)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, in := range []string{"", "[]", "1", `{"a"}`, `{"a":1`, `{"a":}`, `{1:2}`} {
		if _, err := Parse([]byte(in)); err == nil {
			t.Errorf("no error for %q", in)
		}
	}
}

func TestKind(t *testing.T) {
	for in, want := range map[string]byte{"": 0, " {": '{', "-1": '0', "7": '0', `"x"`: '"', "null": 'n', "true": 't'} {
		if got := Kind([]byte(in)); got != want {
			t.Errorf("kind of %q is %q, want %q", in, got, want)
		}
	}
}
