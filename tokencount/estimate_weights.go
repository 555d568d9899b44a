package tokencount

// weightUnit is what one token is in the weights below.
const weightUnit = 1024

// The weights of the ASCII classes. They were fitted by least squares of the
// relative error against exact o200k_base counts of prose in thirty languages,
// source code, JSON, logs, tables, diffs, blobs and agent transcripts, a half
// of the transcripts held back as a check. They are not to be read one by
// one: neighbors share a cost, and some give back what another takes too much.
const (
	wordAfterBlank    = 1231
	wordAfterLone     = 991
	wordAfterEscape   = 1272
	wordAfterPunct    = 1149
	wordAfterDigit    = 506
	wordAfterHigh     = 1223
	wordAfterOther    = 1475
	camelPiece        = 1541
	letter2           = 266
	letter3           = 146
	letter5           = 0
	letter7           = 0
	letter9           = 0
	letter13          = 1485
	capital           = 110
	capitalRun        = 43
	vowelAny          = 482
	vowelE            = -433
	heavy             = 511
	light             = -295
	sway2             = -754
	sway3             = 235
	sway4             = -71
	sway5             = 269
	dull2             = -115
	dull3             = -605
	dull4             = 787
	numberAfterBlank  = 2048
	numberAfterOther  = 1598
	digit4            = 419
	solidLetter       = -204
	solidDigit        = -81
	solidTurn         = 702
	punctAfterBlank   = 1124
	punctAfterWord    = 510
	punctAfterOther   = 682
	punctMore         = 356
	punctSame2        = 276
	punctSame5        = 60
	newlineAfterPunct = 0
	newlineAfterBlank = 756
	newlineAfterOther = 705
	newlineMore       = 124
	blankFirst        = 0
	blankSecond       = 1015
	blankThird        = 0
	blankMixed        = 748
)

// The weights of a rune outside ASCII, by script: of one that starts a run of
// its script, and of one that continues it.
var (
	runeFirst = [scripts]int{
		scriptOther:      689,
		scriptInvalid:    741,
		scriptLatin:      0,
		scriptGreek:      769,
		scriptCyrillic:   1803,
		scriptHebrew:     1071,
		scriptArabic:     671,
		scriptDevanagari: 1535,
		scriptIndic:      509,
		scriptThai:       3302,
		scriptAlphabet:   432,
		scriptHangul:     631,
		scriptKana:       1442,
		scriptHan:        1040,
		scriptHanRare:    4182,
		scriptWide:       0,
		scriptSign:       152,
		scriptBox:        2584,
		scriptSymbol:     1319,
		scriptEmoji:      1417,
		scriptJoiner:     1202,
	}
	runeInRun = [scripts]int{
		scriptOther:      0,
		scriptInvalid:    543,
		scriptLatin:      1557,
		scriptGreek:      342,
		scriptCyrillic:   0,
		scriptHebrew:     320,
		scriptArabic:     303,
		scriptDevanagari: 0,
		scriptIndic:      371,
		scriptThai:       329,
		scriptAlphabet:   299,
		scriptHangul:     805,
		scriptKana:       397,
		scriptHan:        943,
		scriptHanRare:    5239,
		scriptWide:       1068,
		scriptSign:       0,
		scriptBox:        99,
		scriptSymbol:     1892,
		scriptEmoji:      1998,
		scriptJoiner:     803,
	}
)
