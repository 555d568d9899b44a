package tokencount

// weightUnit is what one token is in the weights below.
const weightUnit = 1024

// The weights of the ASCII classes. They were fitted by least squares of the
// relative error against exact o200k_base counts of prose in thirty languages,
// source code, JSON, logs, tables, diffs, blobs and agent transcripts, a half
// of the transcripts held back as a check. They are not to be read one by
// one: neighbors share a cost, and some give back what another takes too much.
const (
	wordAfterBlank    = 946
	wordAfterLone     = 466
	wordAfterEscape   = 1076
	wordAfterPunct    = 974
	wordAfterDigit    = 517
	wordAfterHigh     = 253
	wordAfterOther    = 885
	camelPiece        = 1368
	letter2           = -307
	letter3           = 18
	letter5           = 21
	letter7           = 75
	letter9           = -31
	letter13          = 554
	letterSame5       = 184
	capital           = 79
	capitalRun        = 88
	heavy             = 514
	light             = -134
	tiny              = 369
	sway2             = 34
	sway3             = 70
	dull2             = 267
	dull3             = 245
	numberAfterBlank  = 2162
	numberAfterOther  = 1427
	digit4            = 426
	solidLetter       = -193
	solidDigit        = -102
	solidTurn         = 866
	punctAfterBlank   = 802
	punctAfterWord    = 742
	punctAfterOther   = 1581
	punctMore         = 396
	quoteMore         = -163
	quoteAfterWord    = -54
	punctSame2        = 28
	punctSame5        = 61
	newlineAfterPunct = 179
	newlineAfterBlank = 746
	newlineAfterOther = 903
	newlineMore       = 82
	blankSecond       = 989
	blankThird        = 11
	blankMixed        = 299
)

// The weights of a rune outside ASCII, by script: of one that starts a run of
// its script, and of one that continues it.
var (
	runeFirst = [scripts]int{
		scriptOther:      1335,
		scriptInvalid:    508,
		scriptLatin:      836,
		scriptGreek:      1044,
		scriptCyrillic:   1773,
		scriptHebrew:     1842,
		scriptArabic:     928,
		scriptDevanagari: 0,
		scriptIndic:      836,
		scriptThai:       303,
		scriptAlphabet:   1192,
		scriptHangul:     508,
		scriptKana:       1173,
		scriptHan:        903,
		scriptHanRare:    1173,
		scriptWide:       1258,
		scriptSign:       625,
		scriptBox:        2931,
		scriptSymbol:     1172,
		scriptEmoji:      2671,
		scriptJoiner:     0,
	}
	runeInRun = [scripts]int{
		scriptOther:      1700,
		scriptInvalid:    455,
		scriptLatin:      617,
		scriptGreek:      292,
		scriptCyrillic:   0,
		scriptHebrew:     79,
		scriptArabic:     223,
		scriptDevanagari: 476,
		scriptIndic:      324,
		scriptThai:       438,
		scriptAlphabet:   171,
		scriptHangul:     865,
		scriptKana:       430,
		scriptHan:        803,
		scriptHanRare:    3161,
		scriptWide:       0,
		scriptSign:       1363,
		scriptBox:        46,
		scriptSymbol:     1742,
		scriptEmoji:      1938,
		scriptJoiner:     1134,
	}
)
