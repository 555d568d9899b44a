// Package bpe counts tokens exactly as OpenAI's o200k_base and cl100k_base
// encodings do, on any input, in time that grows with its length and memory
// that does not.
//
//	counter, err := bpe.For(bpe.O200kBase)
//	n, err := counter.Count(ctx, text)
//
// Where the estimator of package tokencount goes, [Exact] goes, too:
//
//	exact, err := bpe.Exact(bpe.O200kBase)
//	pricer := tokencount.NewPricer(exact)
//
// The vocabularies are embedded (about 5 MB in the binary) and parsed when first
// asked for, in tens of milliseconds. Special tokens such as <|endoftext|> in a
// text are counted as the plain text that they are, as every API does with
// content.
//
// # Exactness
//
// A count is exact while no single piece of the text (a word, a run of
// punctuation or of white space, as the encoding's own pattern splits it) is
// longer than [MaxPiece] bytes, which no text written by people or programs for
// people is. A longer piece is cut every MaxPiece bytes, so that a megabyte of
// one letter costs bounded memory; each such cut changes the count by a few
// tokens at most. A byte that is not part of valid UTF-8 counts as the U+FFFD that a
// JSON encoder would send in its place.
package bpe
