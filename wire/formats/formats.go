// Package formats knows every transcript format that the house can read.
package formats

import (
	"bytes"
	"context"
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
