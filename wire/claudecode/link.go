package claudecode

import (
	"slices"

	"github.com/agentcompact/agentcompact/wire/internal/names"
)

// none is the index of no record.
const none = -1

// maxBoundaries is of how many compactions, the newest, we count what they hide
// and follow what they preserve. It bounds the work on hostile files.
const maxBoundaries = 64

// maxEqual is how many earlier records of its uuid a record is compared with.
const maxEqual = 64

// chat is one conversation of a file: the main one or a side chain. Indexes are
// those of its own records.
type chat struct {
	file *file
	recs []*record
	side bool

	parents []int32 // resolved; none at a root
	bridged int     // records whose parent is not in the file

	over    map[int]int          // parents that a compaction's preserved messages get
	splice  map[int]int          // anchor: the last preserved message behind it
	byUUID  map[names.ID]int32   // the record with the uuid, the first one of several
	several map[names.ID][]int32 // of uuids that several records have
	removed map[names.ID]bool
	dropped []bool  // exact copies of an earlier record
	leaves  []int32 // the last record before each that a chain can end at

	// lastBoundary is the newest compaction that is in force, 0 when none is.
	lastBoundary int
	// unlinked: no record behind the last compaction names another one.
	unlinked bool
	// entries are the live messages, filled on reading, and order their records.
	entries []entry
	order   []int32
	cleared map[string]int // see clearedAt
}

func newChat(f *file, recs []*record, side bool) (*chat, error) {
	c := &chat{file: f, recs: recs, side: side, over: map[int]int{}, splice: map[int]int{}, byUUID: map[names.ID]int32{}, several: map[names.ID][]int32{}, removed: map[names.ID]bool{}}
	c.dropped = make([]bool, len(recs))
	c.leaves = make([]int32, len(recs)+1)
	c.leaves[0] = none
	for i, r := range recs {
		if r.uuid != 0 {
			list := c.named(r.uuid)
			for _, k := range list[max(len(list)-maxEqual, 0):] {
				same, err := f.text.Same(recs[k].ref, r.ref)
				if err != nil {
					return nil, err
				}
				c.dropped[i] = c.dropped[i] || same
			}
			switch {
			case c.dropped[i]:
			case len(list) == 0:
				c.byUUID[r.uuid] = int32(i)
			default:
				c.several[r.uuid] = append(list, int32(i))
			}
		}
		c.leaves[i+1] = c.leaves[i]
		if r.canEnd() && !c.dropped[i] {
			c.leaves[i+1] = int32(i)
		}
		if r.rare == nil {
			continue
		}
		for _, u := range r.rare.removes {
			c.removed[u] = true
		}
	}
	c.resolve()
	return c, nil
}

// named returns the records with the uuid, in order.
func (c *chat) named(uuid names.ID) []int32 {
	if list := c.several[uuid]; list != nil {
		return list
	}
	if i, ok := c.byUUID[uuid]; ok {
		return []int32{i}
	}
	return nil
}

// id returns the ID of a uuid that a record names; 0 when no record has it.
func (c *chat) id(uuid string) names.ID {
	id, _ := c.file.ids.Find(uuid)
	return id
}

// resolve finds the parent of each record. With equal uuids it is the nearest
// one before it. Where no record between two compactions names another one, the
// order of the file is all there is.
func (c *chat) resolve() {
	c.parents = make([]int32, len(c.recs))
	for start := 0; start < len(c.recs); {
		end := start + 1
		for end < len(c.recs) && !c.recs[end].boundary() {
			end++
		}
		c.resolveRegion(start, end)
		start = end
	}
}

func (c *chat) resolveRegion(start, end int) {
	linked := false
	for i := start; i < end; i++ {
		c.parents[i] = none
		if r := c.recs[i]; !r.boundary() && !r.root {
			c.parents[i] = int32(c.find(r.parent, i))
			linked = linked || c.parents[i] != none
		}
	}
	c.unlinked = !linked
	prev := none
	for i := start; i < end; i++ {
		r := c.recs[i]
		if c.parents[i] == none && prev != none && (!linked || !r.root) {
			c.parents[i] = int32(prev)
			if !r.root {
				c.bridged++
			}
		}
		if !c.dropped[i] && (r.uuid != 0 || r.isMessage() || r.boundary()) {
			prev = i
		}
	}
}

// find returns the record with the uuid that is nearest before i, or else the
// first one after it.
func (c *chat) find(uuid names.ID, i int) int {
	if uuid == 0 {
		return none
	}
	list := c.several[uuid]
	if list == nil {
		if k, ok := c.byUUID[uuid]; ok && int(k) != i {
			return int(k)
		}
		return none
	}
	n, _ := slices.BinarySearch(list, int32(i))
	switch {
	case n > 0:
		return int(list[n-1])
	case n < len(list) && int(list[n]) != i:
		return int(list[n])
	case n+1 < len(list):
		return int(list[n+1])
	}
	return none
}

// next returns the record before i on its chain.
func (c *chat) next(i int) int {
	if p, ok := c.over[i]; ok {
		return p
	}
	if c.recs[i].boundary() {
		return none
	}
	p := int(c.parents[i])
	if t, ok := c.splice[p]; ok {
		return t
	}
	return p
}

// preserve takes over what the compaction at b preserved: these records follow
// its anchor, whatever their own parents say, and what followed the anchor
// follows the last of them. It returns them, and false when they are named but
// cannot be found.
func (c *chat) preserve(b int) ([]int, bool) {
	m := c.recs[b].rare.compact
	if m.Segment == nil && m.Messages == nil {
		return nil, true
	}
	anchor := b
	var list []int
	if m.Messages != nil {
		anchor = c.after(m.Messages.Anchor, b)
		names := m.Messages.All
		if len(names) == 0 {
			names = m.Messages.UUIDs
		}
		seen := map[int]bool{}
		for _, u := range names {
			if i := c.before(u, b); i != none && !seen[i] {
				seen[i] = true
				list = append(list, i)
			}
		}
	}
	if len(list) == 0 && m.Segment != nil {
		anchor = c.after(m.Segment.Anchor, b)
		list = c.between(c.before(m.Segment.Head, b), c.before(m.Segment.Tail, b))
	}
	if len(list) == 0 {
		return nil, false
	}
	p := anchor
	for _, i := range list {
		c.over[i] = p
		p = i
	}
	c.splice[anchor] = p
	return list, true
}

// before returns the newest record before b with the uuid.
func (c *chat) before(uuid string, b int) int {
	if i := c.find(c.id(uuid), b); i != none && i < b {
		return i
	}
	return none
}

// after returns the first record from b on with the uuid; b when there is none.
func (c *chat) after(uuid string, b int) int {
	for _, i := range c.named(c.id(uuid)) {
		if int(i) >= b {
			return int(i)
		}
	}
	return b
}

// between returns the chain from head to tail, nil when tail does not lead to
// head.
func (c *chat) between(head, tail int) []int {
	if head == none || tail == none {
		return nil
	}
	path := c.path(tail)
	if n := slices.Index(path, head); n >= 0 {
		return path[n:]
	}
	return nil
}

// path returns the chain that ends at leaf, from its root on. It terminates on
// cycles.
func (c *chat) path(leaf int) []int {
	seen := make([]bool, len(c.recs))
	for t, ok := c.splice[leaf]; ok && !seen[t]; t, ok = c.splice[leaf] {
		seen[t] = true
		leaf = t
	}
	clear(seen)
	var path []int
	for i := leaf; i != none && !seen[i]; i = c.next(i) {
		seen[i] = true
		path = append(path, i)
	}
	slices.Reverse(path)
	return path
}

// leaf returns the last record before end that a chain can end at.
func (c *chat) leaf(end int) int { return int(c.leaves[end]) }

// group is one message of the model or one record of another kind, with the
// indexes of its records in the order of the file.
type group struct {
	recs []int
	late []int // results off the path that answer it
}

// region tells messages before the last compaction from those after it: an old
// response that was copied is another one.
type region struct {
	id  names.ID
	old bool
}

// answer is region for responses.
type answer struct {
	response int32
	old      bool
}

// live returns the messages that a request would hold if leaf were the last
// record, in order.
func (c *chat) live(leaf int) []group {
	if leaf == none {
		return nil
	}
	path := c.path(leaf)
	start := 0 // the records before it are there because they were preserved
	if c.recs[path[0]].boundary() {
		start = path[0]
	}
	old := func(i int) bool { return i < start }

	var groups []group
	responses := map[answer]int{}
	on := make([]bool, len(c.recs))
	answered := map[region]bool{}
	for n, i := range path {
		on[i] = true
		r := c.recs[i]
		if !r.isMessage() || c.gone(i) {
			continue
		}
		_, results := c.file.linked(r)
		for _, id := range results {
			answered[region{id, old(i)}] = true
		}
		if r.response != 0 {
			k := answer{r.response, old(i)}
			if g, ok := responses[k]; ok {
				groups[g].recs = append(groups[g].recs, i)
				continue
			}
			responses[k] = len(groups)
		}
		groups = append(groups, group{recs: path[n : n+1 : n+1]})
	}
	c.recover(groups, responses, answered, on, old, leaf)
	return c.hoist(groups)
}

// gone reports whether a record was replaced, retracted or is a copy. An id that
// several records have names none of them.
func (c *chat) gone(i int) bool {
	u := c.recs[i].uuid
	return c.dropped[i] || c.removed[u] && len(c.named(u)) == 1
}

// recover adds what the chain of parents misses because of parallel calls: the
// other fragments of a response and the results of its calls.
func (c *chat) recover(groups []group, responses map[answer]int, answered map[region]bool, on []bool, old func(int) bool, leaf int) {
	if len(responses) == 0 {
		return
	}
	var results []int
	for i, r := range c.recs[:leaf+1] {
		if on[i] || !r.isMessage() || c.gone(i) {
			continue
		}
		if g, ok := responses[answer{r.response, old(i)}]; ok && r.response != 0 {
			groups[g].recs = append(groups[g].recs, i)
		} else if r.kind == kindUser && r.answers > 0 {
			results = append(results, i)
		}
	}
	calls := map[region]int{}
	for _, g := range responses {
		slices.Sort(groups[g].recs)
		for _, i := range groups[g].recs {
			made, _ := c.file.linked(c.recs[i])
			for _, id := range made {
				calls[region{id, old(i)}] = g
			}
		}
	}
	for _, i := range results {
		_, ids := c.file.linked(c.recs[i])
		for _, id := range ids {
			k := region{id, old(i)}
			if g, ok := calls[k]; ok && !answered[k] {
				groups[g].late = append(groups[g].late, i)
				answered[k] = true
				break
			}
		}
	}
}

// hoist puts the results of a response directly after it.
func (c *chat) hoist(groups []group) []group {
	out := make([]group, 0, len(groups))
	for i := 0; i < len(groups); {
		g := groups[i]
		end := i + 1
		for end < len(groups) && c.recs[groups[end].recs[0]].kind != kindAssistant {
			end++
		}
		if c.recs[g.recs[0]].kind != kindAssistant {
			out = append(out, groups[i:end]...)
			i = end
			continue
		}
		own := map[names.ID]bool{}
		for _, k := range g.recs {
			made, _ := c.file.linked(c.recs[k])
			for _, id := range made {
				own[id] = true
			}
		}
		var results, rest []group
		for _, h := range groups[i+1 : end] {
			_, ids := c.file.linked(c.recs[h.recs[0]])
			if slices.ContainsFunc(ids, func(id names.ID) bool { return own[id] }) {
				results = append(results, h)
			} else {
				rest = append(rest, h)
			}
		}
		for _, k := range g.late {
			results = append(results, group{recs: []int{k}})
		}
		if len(g.late) > 0 {
			slices.SortStableFunc(results, func(a, b group) int { return a.recs[0] - b.recs[0] })
		}
		g.late = nil
		out = append(append(append(out, g), results...), rest...)
		i = end
	}
	return out
}
