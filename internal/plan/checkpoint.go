package plan

// What a checkpoint may take where nobody says otherwise: a share of what it
// replaces, at least so many tokens, and at most so many.
const (
	CheckpointRatio = 0.25
	LeastCheckpoint = 384
	MostCheckpoint  = 8192
)

// Checkpoint returns the budget of the checkpoint of a span of so many tokens:
// ratio of it, but at least least, and in any case no more than the smallest of
// the bounds. It is at least 1.
func Checkpoint(tokens int, ratio float64, least int, bounds ...int) int {
	b := max(int(ratio*float64(tokens)), least)
	for _, most := range bounds {
		b = min(b, most)
	}
	return max(b, 1)
}
