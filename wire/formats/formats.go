// Package formats knows every transcript format that the house can read.
package formats

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"strings"

	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/anthropicmessages"
	"github.com/agentcompact/agentcompact/wire/claudecode"
	"github.com/agentcompact/agentcompact/wire/codex"
	"github.com/agentcompact/agentcompact/wire/deepseek"
	"github.com/agentcompact/agentcompact/wire/gemini"
	"github.com/agentcompact/agentcompact/wire/kimi"
	"github.com/agentcompact/agentcompact/wire/langchain"
	"github.com/agentcompact/agentcompact/wire/openaichat"
	"github.com/agentcompact/agentcompact/wire/openairesponses"
	"github.com/agentcompact/agentcompact/wire/opencode"
	"github.com/agentcompact/agentcompact/wire/pi"
	"github.com/agentcompact/agentcompact/wire/qwen"
)

// All returns the codecs in the order in which they are asked.
func All() []wire.Codec {
	return []wire.Codec{
		openaichat.Codec{},
		claudecode.Codec{},
		codex.Codec{},
		anthropicmessages.Codec{},
		openairesponses.Codec{},
		gemini.Contents{},
		gemini.Sessions{},
		pi.Codec{},
		opencode.Codec{},
		langchain.Codec{},
		deepseek.Codec{},
		kimi.Codec{},
		qwen.Codec{},
	}
}

// Trees returns the codecs whose sessions are folders.
func Trees() []wire.TreeCodec {
	return []wire.TreeCodec{opencode.Codec{}}
}

// Read detects the format of a file by its content and reads it. The error is
// a [*wire.Error]; it says when no format matches.
func Read(ctx context.Context, data []byte) (*wire.File, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, &wire.Error{Detail: "the file is empty"}
	}
	codec, _ := wire.Detect(data, true, All()...)
	if codec == nil {
		var names []string
		for _, c := range All() {
			names = append(names, c.Name())
		}
		return nil, &wire.Error{Detail: "no known transcript format matches the content; known are " + strings.Join(names, ", ")}
	}
	return codec.Read(ctx, data)
}

// headSizes are how much of a file is read to tell its format, more and more
// until a codec is certain.
var headSizes = []int64{1 << 20, 16 << 20}

// Open is [Read] for a file of size bytes that stays in r, see [wire.Opener]. A
// format whose files are documents is read whole.
func Open(ctx context.Context, r io.ReaderAt, size int64) (*wire.File, error) {
	var head []byte
	for i, n := range headSizes {
		var err error
		if head, err = readTo(r, head, min(n, size)); err != nil {
			return nil, err
		}
		all := n >= size
		codec, sure := wire.Detect(head, all, All()...)
		if o, ok := codec.(wire.Opener); ok && (sure == wire.Certain || all || i == len(headSizes)-1) {
			return o.Open(ctx, r, size)
		}
		if all {
			break
		}
	}
	data, err := readTo(r, head, size)
	if err != nil {
		return nil, err
	}
	return Read(ctx, data)
}

// readTo reads on until data has n bytes.
func readTo(r io.ReaderAt, data []byte, n int64) ([]byte, error) {
	have := len(data)
	data = append(data, make([]byte, int(n)-have)...)
	if k, err := r.ReadAt(data[have:], int64(have)); k < len(data)-have {
		return nil, &wire.Error{Offset: int64(have + k), Detail: "the file could not be read", Err: err}
	}
	return data, nil
}

// ReadTree detects the format of a folder by what is in it and reads it. The
// error is a [*wire.Error]; it says when no format matches.
func ReadTree(ctx context.Context, dir fs.FS) (*wire.Tree, error) {
	var best wire.TreeCodec
	sure := wire.No
	for _, c := range Trees() {
		if k := c.DetectTree(dir); k > sure {
			best, sure = c, k
		}
	}
	if best == nil {
		return nil, &wire.Error{Detail: "the folder is no session that is known; name a transcript file, or the folder that holds session, message and part of opencode"}
	}
	return best.ReadTree(ctx, dir)
}
