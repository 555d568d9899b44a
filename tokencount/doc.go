// Package tokencount answers how many tokens a text, an image or a tool schema
// costs a model.
//
// [EstimateText] is the estimator: one pass, no vocabulary, no allocation, and
// close enough to decide when to compact. Package tokencount/bpe counts exactly
// for the OpenAI encodings that have a public vocabulary, and package
// tokencount/models knows windows, prices and how other model families differ.
//
// Every figure is in tokens of o200k_base, the encoding of current OpenAI
// models, unless a name says otherwise.
package tokencount
