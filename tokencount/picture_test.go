package tokencount_test

import (
	"bytes"
	"encoding/base64"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentcompact/agentcompact/session"
	"github.com/agentcompact/agentcompact/tokencount"
)

func pictures(t *testing.T, width, height int) map[string][]byte {
	t.Helper()
	picture := image.NewPaletted(image.Rect(0, 0, width, height), color.Palette{color.Black, color.White})
	out := map[string][]byte{}
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, picture))
	out["png"] = bytes.Clone(b.Bytes())
	b.Reset()
	require.NoError(t, jpeg.Encode(&b, picture, nil))
	out["jpeg"] = bytes.Clone(b.Bytes())
	// A JPEG of a camera has a preview before its size.
	preview := append([]byte{0xff, 0xe1, 0xea, 0x62}, make([]byte, 60_000)...)
	out["jpeg of a camera"] = append(append(bytes.Clone(b.Bytes()[:2]), preview...), b.Bytes()[2:]...)
	b.Reset()
	require.NoError(t, gif.Encode(&b, picture, nil))
	out["gif"] = bytes.Clone(b.Bytes())

	w, h := width-1, height-1
	riff := func(chunk string, content ...byte) []byte {
		return append([]byte("RIFF\x00\x00\x00\x00WEBP"+chunk+"\x00\x00\x00\x00"), append(content, make([]byte, 16)...)...)
	}
	out["webp"] = riff("VP8 ", 0, 0, 0, 0x9d, 0x01, 0x2a, byte(width), byte(width>>8), byte(height), byte(height>>8))
	bits := w | h<<14
	out["webp without loss"] = riff("VP8L", 0x2f, byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24))
	out["webp extended"] = riff("VP8X", 0, 0, 0, 0, byte(w), byte(w>>8), byte(w>>16), byte(h), byte(h>>8), byte(h>>16))
	return out
}

func priceOfPicture(img session.Image) int {
	return tokencount.NewPricer(nil).Price(&session.Message{Parts: []session.Part{img}}) - tokencount.PerMessage
}

func TestInlinePicturesTellTheirSize(t *testing.T) {
	for _, size := range [][2]int{{300, 200}, {1920, 1080}, {700, 2000}} {
		want := tokencount.EstimateImage(size[0], size[1], "")
		require.NotEqual(t, tokencount.DefaultImage, want)
		for kind, data := range pictures(t, size[0], size[1]) {
			url := "data:image/x;base64," + base64.StdEncoding.EncodeToString(data)
			assert.Equal(t, want, priceOfPicture(session.Image{URL: url}), kind)
			assert.Equal(t, 85, priceOfPicture(session.Image{URL: url, Detail: "low"}), kind)
			assert.Equal(t, 255, priceOfPicture(session.Image{URL: url, Width: 10, Height: 10}), "%s: what is said counts", kind)
			assert.Equal(t, want, priceOfPicture(session.Image{URL: url + strings.Repeat("A", 1<<20)}), "%s: only the head is read", kind)
		}
	}
	for _, url := range []string{"", "https://x/y.png", "data:,hello", "data:image/png;base64,", "data:image/png;base64,!!!", "data:image/png;base64,iVBORw0KGgo="} {
		assert.Equal(t, tokencount.DefaultImage, priceOfPicture(session.Image{URL: url}), url)
	}
}

func TestPicturesOfAnything(t *testing.T) {
	heads := []string{"", "\x89PNG\r\n\x1a\n", "\xff\xd8\xff", "GIF89a", "RIFF\x00\x00\x00\x00WEBPVP8 ", "RIFF\x00\x00\x00\x00WEBPVP8L", "RIFF\x00\x00\x00\x00WEBPVP8X"}
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SampledFrom(heads).Draw(t, "head") + string(rapid.SliceOfN(rapid.Byte(), 0, 60).Draw(t, "rest"))
		url := "data:image/png;base64," + base64.StdEncoding.EncodeToString([]byte(data))
		got := priceOfPicture(session.Image{URL: url[:rapid.IntRange(0, len(url)).Draw(t, "cut")]})
		require.GreaterOrEqual(t, got, 85)
		require.LessOrEqual(t, got, 85+170*8)
	})
}
