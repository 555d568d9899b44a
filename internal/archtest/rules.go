package archtest

// Modules by what they are for.
const (
	goOpenAI = "github.com/sashabaranov/go-openai"
	xsync    = "golang.org/x/sync"
)

// kitModules are the modules that a test kit may import besides those of its package.
var kitModules = []string{"github.com/stretchr/testify", "pgregory.net/rapid", "go.uber.org/goleak"}

// below are the packages that the table of DESIGN.md calls "all above" the engine.
var below = []string{
	"session", "internal/pair", "internal/plan", "toolpairing", "target", "tokencount", "tokencount/models",
	"overflow", "summarize", "internal/openaiconv", "compact", "lifecycle",
}

// rules is the import table of DESIGN.md, from the bottom up.
var rules = []Rule{
	{Package: "internal/pair"},
	{Package: "internal/plan"},
	{Package: "session", Ours: []string{"internal/pair"}},
	// sessiontest: the verifier checks the pairing answers, too.
	{Package: "session/sessiontest", Ours: []string{"session", "toolpairing", "internal/pair"}, Modules: kitModules},
	{Package: "toolpairing", Ours: []string{"session", "internal/pair"}},
	{Package: "target", Ours: []string{"session"}},
	{Package: "tokencount", Ours: []string{"session"}, Modules: []string{"github.com/clipperhouse/uax29"}},
	{Package: "tokencount/models", Ours: []string{"session", "tokencount"}},
	{Package: "tokencount/bpe", Ours: []string{"session", "tokencount"},
		Modules: []string{"github.com/pkoukk/tiktoken-go", "github.com/pkoukk/tiktoken-go-loader"}},
	{Package: "overflow"},
	{Package: "internal/openaiconv", Ours: []string{"session"}, Modules: []string{goOpenAI}},
	{Package: "summarize",
		Ours: []string{"session", "toolpairing", "tokencount", "target", "overflow", "internal/plan", "internal/openaiconv"},
		Modules: []string{goOpenAI, xsync, "github.com/cenkalti/backoff", "github.com/clipperhouse/uax29",
			"github.com/kljensen/snowball"}},
	{Package: "summarize/summarizetest"}, // the scripted server: usable without the rest
	{Package: "compact", Ours: []string{"session", "target"}},
	// compacttest: a checkpoint must not separate a call from its result.
	{Package: "compact/compacttest", Ours: []string{"compact", "session", "session/sessiontest", "target", "toolpairing"}, Modules: kitModules},
	// compacttest: a span is whole only if the pairing says so.
	{Package: "compact/compacttest", Ours: []string{"compact", "session", "session/sessiontest", "target", "toolpairing"},
		Modules: kitModules},
	{Package: "lifecycle", Ours: []string{"session", "target"}},
	{Package: "lifecycle/otelobserver", Ours: []string{"lifecycle", "session", "target"},
		Modules: []string{"go.opentelemetry.io/otel"}},
	{Package: "compact/engine", Ours: below, Modules: []string{xsync}},
	// chat: the records of checkpoints are those of streamproc, windows and prices those of tokencount, and
	// what it gives back is repaired by the plan of toolpairing.
	{Package: "compact/chat", Ours: []string{"compact/engine", "compact", "summarize", "session", "internal/openaiconv",
		"streamproc", "toolpairing", "tokencount", "tokencount/models"}, Modules: []string{goOpenAI}},
	// streamproc: one of its processors is over go-openai's messages.
	{Package: "streamproc", Ours: below, Modules: []string{xsync, goOpenAI}},
	{Package: "detect", Ours: []string{"session", "lifecycle"}},
	// recall: its tools are offered to a model, so they come as go-openai's types, too.
	{Package: "recall", Ours: []string{"session", "toolpairing", "compact", "tokencount"}, Modules: []string{goOpenAI}},
	{Package: "recall/mcpserver", Ours: []string{"recall", "session", "compact"},
		Modules: []string{"github.com/modelcontextprotocol/go-sdk"}},
	{Package: "wire", Ours: []string{"session", "toolpairing", "compact", "internal/openaiconv"}},
	{Package: "wire/internal/...", Ours: []string{"wire", "wire/internal/...", "session", "toolpairing", "compact", "internal/openaiconv"}},
	{Package: "wire/...", Ours: []string{"wire", "wire/internal/...", "session", "toolpairing", "compact", "internal/openaiconv"},
		Modules: []string{goOpenAI}},
	// doctor: what is not live is matched by file order, without a session.
	{Package: "wire/doctor", Ours: []string{"wire", "wire/internal/...", "session", "toolpairing", "compact", "internal/pair"}},
	{Package: "wire/formats", Ours: []string{"wire", "wire/...", "session"}}, // which format a file is in
	{Package: "store/filestore", Ours: []string{"session"}, Modules: []string{"golang.org/x/sys"}},

	{Package: "testdata"},
	{Package: "cmd/agentcompact", Ours: []string{Public, "internal/eval"}, Modules: []string{Any}},
	{Package: "examples/...", Ours: []string{Public, Kits}, Modules: []string{Any}},
	{Package: "internal/...", Ours: []string{Public, Kits, "testdata", "internal/..."}, Modules: []string{Any}},
}
