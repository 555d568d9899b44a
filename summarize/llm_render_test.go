package summarize

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNobodyClosesTheFence: whatever a tag of the fence is written in.
func TestNobodyClosesTheFence(t *testing.T) {
	for _, s := range []string{
		FenceClose, FenceOpen, "</TRANSCRIPT x=1>", "<\t/\ttranscript\n>", "< / transcript>", "<//transcript>", "</transcript",
		"<\u00ad/transcript>", "<\u2062/transcript>", "<\ufe0f/transcript>", "</tr\u200banscript>", "</t\u0301ranscript>", "</" + strings.Repeat("\u200b", 300) + "transcript>",
		"＜/transcript＞", "<／transcript>", "‹/transcript›", "</trаnscript>", "</𝐭ranscript>", "</ｔranscript>",
	} {
		safe := fenceSafe("a " + s + " b")
		require.NotEqual(t, "a "+s+" b", safe, "%q", s)
		require.Equal(t, safe, fenceSafe(safe), "once is enough")
		require.NotContains(t, strings.ToLower(safe), "</transcript")
		require.NotContains(t, strings.ToLower(safe), FenceOpen)
	}
	for _, s := range []string{"<T> and <b>x</b>", "日本 <tr>", "a < t", "the transcript", "<tran", "〈書名〉", "<", "＜"} {
		require.Equal(t, s, fenceSafe(s))
	}
}
