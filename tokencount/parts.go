package tokencount

import (
	"bytes"
	"encoding/json"
	"strings"
)

// What a chat request costs besides its contents, in tokens, by OpenAI's
// published rule for current chat models. Other providers are near enough for
// the difference to vanish in a context of thousands.
const (
	// PerMessage frames one message: its role and its end.
	PerMessage = 3
	// PerName is a name given to the author of a message.
	PerName = 1
	// PerReply primes the reply, once a request.
	PerReply = 3
	// PerToolCall frames one call in an assistant message beside its id, name
	// and arguments, which are text.
	PerToolCall = 4
	// PerTool frames one tool's declaration beside its JSON.
	PerTool = 7
	// PerToolList frames the list of tools, once a request that has any.
	PerToolList = 12
)

// Images, by OpenAI's rule of tiles.
const (
	imageBase     = 85  // any image; all of it in low detail
	imageTile     = 170 // each tile in high detail
	imageTileSide = 512
	imageLongest  = 2048 // larger images are scaled down to fit
	imageShortest = 768  // then until the shorter side is at most this

	// DefaultImage is the price of an image in high detail whose size is not
	// known: that of 1024 by 1024 pixels.
	DefaultImage = imageBase + 4*imageTile
)

// EstimateImage returns the tokens of an image of width by height pixels. Detail
// is "low", "high", or "auto" or "", which are priced like "high" because that
// is what a provider chooses for all but small images; so is any other word. An
// image whose width or height is not positive has an unknown size and costs
// [DefaultImage], or the fixed price of low detail.
//
// The rule is OpenAI's for GPT-4o and its like: fit into a square of 2048 pixels,
// scale down to 768 on the shorter side, then 170 for each tile of 512 pixels
// begun and 85 for all.
func EstimateImage(width, height int, detail string) int {
	if detail == "low" {
		return imageBase
	}
	if width <= 0 || height <= 0 {
		return DefaultImage
	}
	w, h := float64(width), float64(height)
	if scale := imageLongest / max(w, h); scale < 1 {
		w, h = w*scale, h*scale
	}
	if scale := imageShortest / min(w, h); scale < 1 {
		w, h = w*scale, h*scale
	}
	return imageBase + imageTile*tiles(w)*tiles(h)
}

// tiles returns how many tiles a side begins. A side that scaling left a hair
// above a multiple of the tile begins no further one.
func tiles(side float64) int {
	const hair = 1e-6
	n := int((side - hair) / imageTileSide)
	return n + 1
}

// Files.
const (
	fileBase         = 85 // any file, beside its content
	bytesTokenText   = 4
	bytesTokenPDF    = 30  // 50 to 100 kB a page, 1,500 to 3,000 tokens a page
	bytesTokenStream = 500 // audio and video, compressed
)

// EstimateFile returns the tokens of an attached file of so many bytes: of a
// text about its bytes, of a document or recording what the usual densities
// make of them, and of a picture [DefaultImage]. A size that is not positive
// is unknown and costs the framing only.
func EstimateFile(size int, mediaType string) int {
	kind, _, _ := strings.Cut(strings.ToLower(mediaType), "/")
	switch {
	case kind == "image":
		return DefaultImage
	case kind == "audio" || kind == "video":
		return fileBase + max(size, 0)/bytesTokenStream
	case strings.HasPrefix(strings.ToLower(mediaType), "application/pdf"):
		return fileBase + max(size, 0)/bytesTokenPDF
	}
	return fileBase + max(size, 0)/bytesTokenText
}

// EstimateSchema returns the tokens of one tool's JSON declaration (name,
// description and parameters), its framing included. White space between JSON
// tokens is free, since providers render a declaration anew. An empty
// declaration is 0; what is no JSON is priced as text.
func EstimateSchema(declaration []byte) int {
	return schema(Estimator{}, declaration)
}

// schema is [EstimateSchema] with a counter for the text.
func schema(c Counter, declaration []byte) int {
	if len(bytes.TrimSpace(declaration)) == 0 {
		return 0
	}
	var compact bytes.Buffer
	if json.Compact(&compact, declaration) == nil {
		declaration = compact.Bytes()
	}
	return PerTool + c.Count(string(declaration))
}
