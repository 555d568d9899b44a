package models

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
)

//go:embed models.json
var data []byte

// embedded is the registry over models.json.
type embedded struct {
	byProvider map[string]map[string]Model // provider, then form of a name
	byName     map[string]Model            // form of a name, first provider wins
	vendors    map[string]bool             // what may stand before a slash in a name
}

// Embedded returns the registry of the embedded snapshot. It is parsed at the
// first call.
//
// A name may be a model's own ("gpt-4o"), dated or not ("gpt-4o-2024-08-06",
// "claude-sonnet-4" for "claude-sonnet-4-20250514"), behind a provider or vendor
// ("openai/gpt-4o", "openrouter/anthropic/claude-sonnet-4", "models/gemini-2.5-pro"),
// or a cloud's ("us.anthropic.claude-sonnet-4-20250514-v1:0",
// "claude-sonnet-4@20250514"). A variant behind a colon (":free") is the model
// itself. "[1m]" behind a name asks for a window of a million tokens. Case does
// not matter, nor whether a version is written 4.5 or 4-5.
func Embedded() Registry { return load() }

var load = sync.OnceValue(func() *embedded {
	r, err := parse(data)
	if err != nil {
		panic(err) // the file is part of the package, and a test reads it
	}
	return r
})

func parse(data []byte) (*embedded, error) {
	var file struct {
		Providers []struct {
			ID     string
			Models []row
		}
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("models: embedded data: %w", err)
	}
	r := &embedded{
		byProvider: map[string]map[string]Model{},
		byName:     map[string]Model{},
		vendors:    map[string]bool{},
	}
	for _, p := range file.Providers {
		own := map[string]Model{}
		r.byProvider[p.ID] = own
		r.vendors[p.ID] = true
		// First all names as they stand, so that no shortened one hides them.
		for _, m := range p.Models {
			m.Provider = p.ID
			own[spell(m.ID)] = m.Model
			if vendor, _, ok := strings.Cut(m.ID, "/"); ok {
				r.vendors[strings.ToLower(vendor)] = true
			}
		}
		dated := map[string]string{}
		for _, m := range p.Models {
			m.Provider = p.ID
			for _, form := range forms(m.ID)[1:] {
				// Of several dates the latest goes by the undated name.
				if _, taken := own[form]; !taken || dated[form] != "" && dated[form] < spell(m.ID) {
					own[form], dated[form] = m.Model, spell(m.ID)
				}
			}
		}
		for form, m := range own {
			r.claim(form, m)
		}
	}
	// A name behind a vendor ("qwen/qwen3-coder") goes by itself where it is
	// nobody's own name.
	for _, p := range file.Providers {
		for _, m := range p.Models {
			if _, short, ok := strings.Cut(m.ID, "/"); ok {
				for _, form := range forms(short[strings.LastIndexByte(short, '/')+1:]) {
					r.claim(form, r.byProvider[p.ID][spell(m.ID)])
				}
			}
		}
	}
	return r, nil
}

// claim gives a name to a model, unless an earlier provider has it: be it
// undated, for a maker knows its model better than who resells a dated one.
func (r *embedded) claim(form string, m Model) {
	if have, ok := first(r.byName, forms(form)); ok && have.Provider != m.Provider {
		return
	}
	if _, taken := r.byName[form]; !taken {
		r.byName[form] = m
	}
}

// row is a model as the file has it: an array, to be compact.
type row struct{ Model }

// UnmarshalJSON implements json.Unmarshaler.
func (r *row) UnmarshalJSON(b []byte) error {
	fields := []any{&r.ID, &r.Window, &r.Output, &r.Price.Input, &r.Price.Output, &r.Price.CacheRead, &r.Price.CacheWrite}
	want := len(fields)
	if err := json.Unmarshal(b, &fields); err != nil {
		return err
	}
	if len(fields) != want {
		return fmt.Errorf("a model has %d fields, not %d", want, len(fields))
	}
	r.Family = FamilyOf(r.ID)
	return nil
}

// Lookup implements [Registry].
func (r *embedded) Lookup(name string) (Model, bool) {
	name = strings.TrimSpace(name)
	short, wide := strings.CutSuffix(strings.ToLower(name), "[1m]")
	m, ok := r.find(short)
	if ok && wide {
		m.Window = max(m.Window, 1_000_000)
	}
	return m, ok
}

func (r *embedded) find(name string) (Model, bool) {
	name = strings.TrimPrefix(name, "models/")
	provider, rest, slash := strings.Cut(name, "/")
	if !slash {
		return first(r.byName, forms(name))
	}
	if known, ok := providerNames[provider]; ok {
		provider = known
	}
	if own, ok := r.byProvider[provider]; ok {
		if m, ok := first(own, forms(rest)); ok {
			return m, true
		}
	}
	if m, ok := first(r.byName, forms(name)); ok {
		return m, true
	}
	if r.vendors[provider] {
		return r.find(rest)
	}
	return Model{}, false
}

func first(in map[string]Model, forms []string) (Model, bool) {
	for _, f := range forms {
		if m, ok := in[f]; ok {
			return m, true
		}
	}
	return Model{}, false
}
