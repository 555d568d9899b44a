package summarize

import (
	"unicode"
	"unicode/utf8"
)

// skeleton is a text as a careless reader sees it: small ASCII letters for
// whatever looks like them, without invisible characters. at maps its bytes to
// those of the text.
type skeleton struct {
	text []byte
	at   []int32
}

// invisible reports whether a rune leaves no mark on the screen.
func invisible(r rune) bool {
	switch {
	case r == 0x00AD, r == 0x034F, r == 0x061C, r == 0x115F, r == 0x1160, r == 0x17B4, r == 0x17B5,
		r >= 0x180B && r <= 0x180F, r >= 0x200B && r <= 0x200F, r >= 0x202A && r <= 0x202E,
		r >= 0x2060 && r <= 0x206F, r == 0x3164, r >= 0xFE00 && r <= 0xFE0F, r == 0xFEFF, r == 0xFFA0,
		r >= 0x1D173 && r <= 0x1D17A, r >= 0xE0000 && r <= 0xE0FFF:
		return true
	}
	return false
}

// smuggled reports whether a rune has no place in text: it reorders what is
// seen, or says something that is not seen at all. Joiners, soft hyphens and
// zero-width spaces belong to scripts and stay.
func smuggled(r rune) bool {
	switch {
	case r < 0x20 && r != '\t' && r != '\n', r >= 0x7F && r < 0xA0,
		r >= 0x202A && r <= 0x202E, r >= 0x2066 && r <= 0x206F, r >= 0xE0000 && r <= 0xE0FFF, r == 0xFEFF,
		r >= 0xFFF9 && r <= 0xFFFB:
		return true
	}
	return false
}

// lookalikes are letters and signs of other scripts that look like ASCII.
var lookalikes = func() map[rune]byte {
	m := map[rune]byte{}
	for ascii, like := range map[byte]string{
		'a': "аɑαаᴀ", 'b': "ЬвʙᏏ", 'c': "сϲᴄⅽ", 'd': "ԁⅾᴅ", 'e': "еєҽᴇℯ", 'f': "ғƒ", 'g': "ɡԍɢ", 'h': "һнʜ",
		'i': "іıιɩⅰ", 'j': "јϳᴊ", 'k': "кκᴋ", 'l': "ӏⅼʟ", 'm': "мᴍⅿ", 'n': "пոɴ", 'o': "оοօᴏ", 'p': "рρᴘ",
		'q': "ԛզ", 'r': "гᴦʀ", 's': "ѕꜱ", 't': "тτᴛ", 'u': "υսцᴜ", 'v': "ѵνⅴᴠ", 'w': "ԝωшᴡ", 'x': "хχⅹ", 'y': "уүγʏ", 'z': "ᴢ",
		'<': "‹〈＜❮⟨≺˂ᐸ❬«﹤〈", '>': "›〉＞❯⟩≻˃ᐳ❭»﹥〉", '/': "⁄∕／⧸", '[': "［【〔⟦❲", ']': "］】〕⟧❳", ':': "：꞉∶ː﹕", '|': "｜∣ǀ", '#': "＃", '`': "｀ˋ",
	} {
		for _, r := range like {
			m[r] = ascii
			if u := unicode.ToUpper(r); u != r {
				m[u] = ascii
			}
		}
	}
	return m
}()

// plainRune folds a rune outside ASCII to the ASCII character that it looks
// like; 0 when it looks like none.
func plainRune(r rune) byte {
	if c, ok := lookalikes[r]; ok {
		return c
	}
	switch {
	case r >= 0xFF01 && r <= 0xFF5E: // full width
		return lowerByte(byte(r - 0xFF01 + '!'))
	case r >= 0x1D400 && r <= 0x1D6A3: // mathematical letters: 26 capitals, 26 small, again and again
		return 'a' + byte((r-0x1D400)%26)
	case r >= 0x24B6 && r <= 0x24E9: // circled
		return 'a' + byte((r-0x24B6)%26)
	case r == 0x3000 || unicode.IsSpace(r):
		return ' '
	}
	return 0
}

func lowerByte(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 32
	}
	return c
}

func skeletonOf(s string) skeleton {
	k := skeleton{make([]byte, 0, len(s)), make([]int32, 0, len(s)+1)}
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			k.text = append(k.text, lowerByte(c))
			k.at = append(k.at, int32(i))
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		switch f := plainRune(r); {
		case f != 0:
			k.text = append(k.text, f)
			k.at = append(k.at, int32(i))
		case invisible(r) || unicode.Is(unicode.Mn, r):
		default:
			for range n {
				k.text = append(k.text, 0xFF)
				k.at = append(k.at, int32(i))
			}
		}
		i += n
	}
	k.at = append(k.at, int32(len(s)))
	return k
}
