package tokencount

// weightUnit is what one token is in the weights below.
const weightUnit = 1024

// The weights of the ASCII classes. They were fitted by least squares of the
// relative error against exact o200k_base counts of prose in thirty languages,
// source code, JSON, logs, tables, diffs, blobs and agent transcripts, a half
// of the transcripts held back as a check. They are not to be read one by
// one: neighbors share a cost, and some give back what another takes too much.
const (
	wordAfterBlank    = 952
	wordAfterLone     = 366
	wordAfterBullet   = 1025
	wordAfterEscape   = 987
	wordAfterPunct    = 905
	wordAfterDigit    = 546
	wordAfterHigh     = 427
	wordAfterOther    = 893
	camelPiece        = 1375
	letter2           = -392
	letter3           = 25
	letter5           = 0
	letter7           = 74
	letter9           = 9
	letter13          = 595
	letterSame5       = 184
	capital           = 110
	capitalRun        = 75
	heavy             = 598
	light             = -146
	letterE           = 392
	sway2             = 93
	sway3             = 59
	dull2             = 306
	dull3             = 298
	numberAfterBlank  = 2119
	numberAfterOther  = 1393
	digit4            = 420
	solidLetter       = -180
	solidDigit        = -95
	solidTurn         = 820
	punctAfterBlank   = 964
	punctAfterWord    = 812
	punctAfterOther   = 1089
	punctMore         = 391
	quoteMore         = -82
	quoteAfterWord    = -65
	punctSame2        = 172
	punctSame5        = 61
	newlineAfterPunct = 0
	newlineAfterBlank = 802
	newlineAfterOther = 940
	newlineMore       = 82
	blankSecond       = 984
	blankThird        = 11
	blankMixed        = 448
)

// The weights of a rune outside ASCII, by script: of one that starts a run of
// its script, and of one that continues it.
var (
	runeFirst = [scripts]int{
		scriptOther:      1276,
		scriptInvalid:    521,
		scriptLatin:      630,
		scriptGreek:      1079,
		scriptCyrillic:   1766,
		scriptHebrew:     1781,
		scriptArabic:     904,
		scriptDevanagari: 0,
		scriptIndic:      814,
		scriptThai:       353,
		scriptAlphabet:   1142,
		scriptHangul:     446,
		scriptKana:       1212,
		scriptHan:        890,
		scriptHanRare:    1267,
		scriptWide:       1271,
		scriptSign:       502,
		scriptBox:        2996,
		scriptSymbol:     1146,
		scriptEmoji:      2764,
		scriptJoiner:     0,
	}
	runeInRun = [scripts]int{
		scriptOther:      1603,
		scriptInvalid:    470,
		scriptLatin:      600,
		scriptGreek:      281,
		scriptCyrillic:   0,
		scriptHebrew:     97,
		scriptArabic:     230,
		scriptDevanagari: 471,
		scriptIndic:      326,
		scriptThai:       437,
		scriptAlphabet:   178,
		scriptHangul:     894,
		scriptKana:       408,
		scriptHan:        797,
		scriptHanRare:    3590,
		scriptWide:       671,
		scriptSign:       1458,
		scriptBox:        38,
		scriptSymbol:     1781,
		scriptEmoji:      1898,
		scriptJoiner:     1170,
	}
)
