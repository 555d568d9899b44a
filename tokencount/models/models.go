// Package models knows windows, output limits and prices of models, offline,
// and how the tokenizers of model families differ from o200k_base.
//
// What it says is a snapshot that ages; models.json and its README say of what.
// A name that it does not know stays unknown: nothing is guessed from a name's
// likeness to another.
package models

// Model is what is known of one model at one provider.
type Model struct {
	// ID is the model's name as the provider of the entry wants it.
	ID string
	// Provider is who serves it: "openai", "anthropic", "bedrock", "openrouter" ...
	Provider string
	// Window is the context window in tokens, prompt and reply together.
	Window int
	// Output is how many tokens a reply may have, in tokens; 0 is unknown. For
	// some models it is the provider's usual setting and less than the limit.
	Output int
	// Price is in US dollars per million tokens. All zero is unknown or free.
	Price Price
	// Family says which tokenizer it has.
	Family Family
}

// Price is in US dollars per million tokens. A cache price of 0 is unknown;
// such tokens cost what other input costs.
type Price struct {
	Input, Output         float64
	CacheRead, CacheWrite float64
}

// Registry finds a model by the name that a request carries. ok is false when
// the name is not known. Implementations are safe for concurrent use.
type Registry interface {
	Lookup(name string) (model Model, ok bool)
}

// Fixed is a registry of a host's own, by exact name.
type Fixed map[string]Model

// Lookup implements [Registry].
func (f Fixed) Lookup(name string) (Model, bool) {
	m, ok := f[name]
	return m, ok
}

// Layers asks each registry in turn, so that a host's entries go before the
// embedded ones:
//
//	models.Layers{models.Fixed{"my-model": {Window: 32_000}}, models.Embedded()}
type Layers []Registry

// Lookup implements [Registry].
func (l Layers) Lookup(name string) (Model, bool) {
	for _, r := range l {
		if m, ok := r.Lookup(name); ok {
			return m, true
		}
	}
	return Model{}, false
}
