package streamproc

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
)

// Memory keeps what code knows of checkpoints beside a history that has no
// place for it, by a hash of their text. It can be stored as JSON. It is safe
// for concurrent use; nil knows nothing and keeps nothing.
type Memory struct {
	mu      sync.RWMutex
	records map[string]Record
}

// NewMemory returns an empty memory.
func NewMemory() *Memory { return &Memory{} }

func memoryKey(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Find returns the record of the checkpoint with that text.
func (m *Memory) Find(text string) (Record, bool) {
	if m == nil {
		return Record{}, false
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	if len(m.records) == 0 {
		return Record{}, false
	}
	r, ok := m.records[memoryKey(text)]
	return r, ok
}

// Add keeps the record of the checkpoint with that text.
func (m *Memory) Add(text string, r Record) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.records == nil {
		m.records = make(map[string]Record)
	}
	m.records[memoryKey(text)] = r
}

// Len returns the number of records.
func (m *Memory) Len() int {
	if m == nil {
		return 0
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	return len(m.records)
}

// MarshalJSON implements [json.Marshaler].
func (m *Memory) MarshalJSON() ([]byte, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return json.Marshal(m.records)
}

// UnmarshalJSON implements [json.Unmarshaler]. Records that are there stay.
func (m *Memory) UnmarshalJSON(data []byte) error {
	var in map[string]Record
	if err := json.Unmarshal(data, &in); err != nil {
		return fmt.Errorf("read memory of checkpoints: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.records == nil {
		m.records = make(map[string]Record, len(in))
	}
	maps.Copy(m.records, in)
	return nil
}
