package tokencount

// weightUnit is what one token is in the weights below.
const weightUnit = 1024

// The weights of the ASCII classes. They were fitted by least squares of the
// relative error against exact o200k_base counts of prose in forty languages,
// source code, JSON, logs, tables, diffs, blobs and agent transcripts, whole and
// text by text; how strongly they may leave what they were before was chosen on
// a third of it that was held back. They are not to be read one by one:
// neighbors share a cost, and some give back what another takes too much.
const (
	textStart         = -163
	wordAfterBlank    = 646
	wordAfterLone     = 285
	wordAfterBullet   = 933
	wordAfterEscape   = 878
	wordAfterPunct    = 744
	wordAfterDigit    = 696
	wordAfterHigh     = 940
	wordAfterOther    = 884
	camelPiece        = 1008
	letter2           = -136
	letter3           = 147
	letter5           = -156
	letter7           = 334
	letter9           = -103
	letter13          = 150
	letterSame5       = 128
	capital           = 247
	capitalRun        = 63
	heavy             = 600
	light             = -137
	letterE           = 456
	sway2             = -142
	sway3             = -56
	dull2             = -31
	dull3             = 334
	numberAfterBlank  = 1781
	numberAfterOther  = 1161
	digit4            = 409
	solidLetter       = -74
	solidDigit        = -114
	solidTurn         = 767
	punctAfterBlank   = 1310
	punctAfterWord    = 960
	punctAfterOther   = 1152
	punctMore         = 282
	quoteMore         = 24
	quoteAfterWord    = -485
	punctSame2        = 347
	punctSame5        = 61
	newlineAfterPunct = -687
	newlineAfterBlank = 697
	newlineAfterOther = 1410
	newlineMore       = 95
	blankSecond       = 1634
	blankThird        = -38
	blankMixed        = 415
)

// The weights of a rune outside ASCII, by script: of one that starts a run of
// its script, and of one that continues it.
var (
	runeFirst = [scripts]int{
		scriptOther:      1333,
		scriptInvalid:    374,
		scriptLatin:      390,
		scriptGreek:      1036,
		scriptCyrillic:   1454,
		scriptHebrew:     1599,
		scriptArabic:     659,
		scriptDevanagari: 0,
		scriptIndic:      743,
		scriptThai:       356,
		scriptAlphabet:   1042,
		scriptHangul:     445,
		scriptKana:       1322,
		scriptHan:        885,
		scriptHanRare:    1349,
		scriptWide:       1008,
		scriptSign:       852,
		scriptBox:        2603,
		scriptSymbol:     696,
		scriptEmoji:      2722,
		scriptJoiner:     0,
	}
	runeInRun = [scripts]int{
		scriptOther:      1601,
		scriptInvalid:    666,
		scriptLatin:      4,
		scriptGreek:      293,
		scriptCyrillic:   60,
		scriptHebrew:     156,
		scriptArabic:     291,
		scriptDevanagari: 487,
		scriptIndic:      344,
		scriptThai:       450,
		scriptAlphabet:   181,
		scriptHangul:     919,
		scriptKana:       392,
		scriptHan:        794,
		scriptHanRare:    3615,
		scriptWide:       668,
		scriptSign:       1455,
		scriptBox:        38,
		scriptSymbol:     1783,
		scriptEmoji:      1886,
		scriptJoiner:     1170,
	}
)
