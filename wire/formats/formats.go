// Package formats knows every transcript format that the house can read.
package formats

import (
	"bytes"
	"context"
	"strings"

	"github.com/agentcompact/agentcompact/wire"
	"github.com/agentcompact/agentcompact/wire/claudecode"
	"github.com/agentcompact/agentcompact/wire/codex"
	"github.com/agentcompact/agentcompact/wire/openaichat"
)

// All returns the codecs in the order in which they are asked.
func All() []wire.Codec {
	return []wire.Codec{
		openaichat.Codec{},
		claudecode.Codec{},
		codex.Codec{},
	}
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
