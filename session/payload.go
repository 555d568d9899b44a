package session

// Encoded returns the JSON payload of an event that is not decoded in memory:
// the bytes of its "data" as its store holds them, in a slice of the caller's.
// ok is false when the payload is decoded already; then [Event.Body] costs
// nothing. It lets a search pass over what cannot match without decoding it.
func (e *Event) Encoded() (data []byte, ok bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.body != nil || e.src == nil || e.weak.Value() != nil {
		return nil, false, nil
	}
	data, err = e.src.Load(e.off, int(e.n))
	return data, err == nil, err
}
