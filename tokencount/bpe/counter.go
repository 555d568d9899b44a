package bpe

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"unicode/utf8"
)

// Encoding names a vocabulary and the pattern that goes with it.
type Encoding string

// The encodings of OpenAI's models since GPT-4o, and of GPT-4 and GPT-3.5.
const (
	O200kBase  Encoding = "o200k_base"
	Cl100kBase Encoding = "cl100k_base"
)

const (
	// MaxPiece is the longest piece in bytes that is encoded as a whole; see
	// the package comment on exactness.
	MaxPiece = 64 << 10

	// checkEvery is how many bytes are counted between two looks at a context.
	checkEvery = 64 << 10

	// maxIdle is how many workers are kept for later calls. Each holds at most
	// about 5 MB: 0.5 MB of cache, and what the longest piece needed.
	maxIdle = 8
)

// Counter counts tokens of one encoding. It is safe for concurrent use.
type Counter struct {
	encoding Encoding
	vocab    *vocabulary

	mu   sync.Mutex
	idle []*worker
}

var loaded = map[Encoding]func() (*Counter, error){
	O200kBase:  sync.OnceValues(func() (*Counter, error) { return load(O200kBase) }),
	Cl100kBase: sync.OnceValues(func() (*Counter, error) { return load(Cl100kBase) }),
}

// For returns the counter of an encoding, the same at every call. The first
// call loads the vocabulary. An unknown encoding is an error.
func For(e Encoding) (*Counter, error) {
	get, ok := loaded[e]
	if !ok {
		return nil, fmt.Errorf("bpe: unknown encoding %q", string(e))
	}
	return get()
}

func load(e Encoding) (*Counter, error) {
	v, err := loadVocabulary(string(e))
	if err != nil {
		return nil, err
	}
	return &Counter{encoding: e, vocab: v}, nil
}

// Encoding returns which encoding c counts.
func (c *Counter) Encoding() Encoding { return c.encoding }

// Count returns how many tokens text is. It looks at ctx at the start and every
// 64 KiB; the error is then the cause of ctx, and the count that of the bytes
// before. The empty string is 0 tokens. Warm, it allocates nothing.
func (c *Counter) Count(ctx context.Context, text string) (int, error) {
	w := c.take()
	defer c.give(w)
	return w.count(ctx, text)
}

// CountString is Count without a way to stop it.
func (c *Counter) CountString(text string) int {
	n, _ := c.Count(context.Background(), text)
	return n
}

// Encode appends the token ids of text to dst. On an error it returns what it
// has so far. It is slower than Count.
func (c *Counter) Encode(ctx context.Context, dst []int, text string) ([]int, error) {
	w := c.take()
	defer c.give(w)
	w.merger.collect, w.merger.ids = true, dst
	_, err := w.count(ctx, text)
	dst = w.merger.ids
	w.merger.collect, w.merger.ids = false, nil
	return dst, err
}

// take returns an idle worker or a new one.
func (c *Counter) take() *worker {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.idle); n > 0 {
		w := c.idle[n-1]
		c.idle = c.idle[:n-1]
		return w
	}
	return &worker{
		vocab:    c.vocab,
		splitter: splitter{o200k: c.encoding == O200kBase},
		merger:   merger{vocab: c.vocab},
		cache:    new(cache),
	}
}

func (c *Counter) give(w *worker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.idle) < maxIdle {
		c.idle = append(c.idle, w)
	}
}

// worker is what one call needs: memory to work in, and a cache. There are as
// many as calls ever ran at once, so that no call waits for another.
type worker struct {
	vocab    *vocabulary
	splitter splitter
	merger   merger
	cache    *cache
	valid    []byte // a piece with its bad bytes replaced
}

func (w *worker) count(ctx context.Context, text string) (int, error) {
	valid := utf8.ValidString(text)
	total, check := 0, 0
	for i := 0; i < len(text); {
		if i >= check {
			if ctx.Err() != nil {
				return total, context.Cause(ctx)
			}
			check = i + checkEvery
		}
		end := w.splitter.next(text, i)
		for end-i > MaxPiece {
			cut := i + MaxPiece
			for k := 0; k < utf8.UTFMax-1 && !utf8.RuneStart(text[cut]); k++ {
				cut--
			}
			total += w.piece(text[i:cut], valid)
			i = cut
			if ctx.Err() != nil {
				return total, context.Cause(ctx)
			}
		}
		total += w.piece(text[i:end], valid)
		i = end
	}
	return total, nil
}

// piece counts the tokens of one piece.
func (w *worker) piece(p string, valid bool) int {
	if !valid && !utf8.ValidString(p) {
		return w.repaired(p)
	}
	if len(p) <= 2 || len(p) > w.vocab.longest {
		if rank := w.vocab.rank(p); rank != noRank {
			return w.single(rank)
		}
		return w.merger.merge(p)
	}
	hash := maphash.String(w.vocab.seed, p)
	if rank := w.vocab.find(p, hash); rank != noRank {
		return w.single(rank)
	}
	if w.merger.collect || len(p) > cacheKey {
		return w.merger.merge(p)
	}
	entry := w.cache.at(hash)
	if !entry.is(p) {
		entry.set(p, w.merger.merge(p))
	}
	return int(entry.tokens)
}

// single is one piece that is one token.
func (w *worker) single(rank uint32) int {
	if w.merger.collect {
		w.merger.ids = append(w.merger.ids, int(rank))
	}
	return 1
}

// repaired counts a piece after putting U+FFFD for each bad byte.
func (w *worker) repaired(p string) int {
	b := w.valid[:0]
	for _, r := range p {
		b = utf8.AppendRune(b, r)
	}
	w.valid = b
	return w.piece(unsafeString(b), true)
}
