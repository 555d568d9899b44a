package tokencount

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
)

// pictureHead is how much of a picture's base64 is decoded to find its size. A
// JPEG may have a preview of 64 KiB before it.
const pictureHead = 128 << 10

// pictureSize returns the pixels of a picture in a data URL, zeros for what it
// cannot read. It decodes the head only.
func pictureSize(url string) (width, height int) {
	if !strings.HasPrefix(url, "data:") {
		return 0, 0
	}
	_, data, ok := strings.Cut(url, ";base64,")
	if !ok {
		return 0, 0
	}
	data = strings.TrimRight(data[:min(len(data), pictureHead)], "=")
	head := make([]byte, base64.RawStdEncoding.DecodedLen(len(data)))
	n, _ := base64.RawStdEncoding.Decode(head, []byte(data)) // as far as it is base64
	head = head[:n]

	var c image.Config
	var err error
	switch r := bytes.NewReader(head); {
	case bytes.HasPrefix(head, []byte("\x89PNG")):
		c, err = png.DecodeConfig(r)
	case bytes.HasPrefix(head, []byte("\xff\xd8")):
		c, err = jpeg.DecodeConfig(r)
	case bytes.HasPrefix(head, []byte("GIF8")):
		c, err = gif.DecodeConfig(r)
	case len(head) >= 30 && string(head[:4]) == "RIFF" && string(head[8:12]) == "WEBP":
		return webpSize(string(head[12:16]), head[20:])
	}
	if err != nil {
		return 0, 0
	}
	return c.Width, c.Height
}

// webpSize reads the size in the first chunk of a WebP file; b has at least ten
// bytes of its content.
func webpSize(chunk string, b []byte) (width, height int) {
	le := binary.LittleEndian
	switch chunk {
	case "VP8 ":
		return int(le.Uint16(b[6:]) & 0x3fff), int(le.Uint16(b[8:]) & 0x3fff)
	case "VP8L":
		bits := le.Uint32(b[1:])
		return int(bits&0x3fff) + 1, int(bits>>14&0x3fff) + 1
	case "VP8X":
		return int(le.Uint32(b[3:])>>8) + 1, int(le.Uint32(b[6:])>>8) + 1
	}
	return 0, 0
}
