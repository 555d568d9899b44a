package overflow

// num is a count: digits with separators, or with k or m behind.
const num = `\d[\d,_]*(?:\.\d+)?(?:[km]\b)?`

// rowsNumbers say where the numbers of an overflow stand. Rows are tried in
// their order; each fills what no row before it has filled, and a number that a
// row has taken is not read again. The groups:
//
//	limit   the maximum of the input       window  the window
//	rough   a maximum of either            input   the size of the input
//	part    one part of the input, summed  total   input and reply together
//	output  the room asked for the reply   over    the excess
//
// A number in brackets behind a bare "limit" is left alone: it is a code.
var rowsNumbers = []*row{
	{name: "num.over", stage: stageNumber, text: `\bby (?P<over>` + num + `) tokens?\b`,
		source: "https://docs.cohere.com/v1/reference/errors"},
	{name: "num.output-window-input", stage: stageNumber, text: `(?P<output>` + num + `) > (?P<window>` + num + `) - (?P<input>` + num + `)`,
		source: "https://github.com/vllm-project/vllm/issues/20409"},
	{name: "num.window-minus-prompt", stage: stageNumber, text: `max_seq_len \((?P<window>` + num + `)\) - \w*prompt_len \((?P<input>` + num + `)\)`,
		source: "https://github.com/NVIDIA/TensorRT-LLM/pull/7239"},
	{name: "num.compare", stage: stageNumber,
		text:   `(?P<input>` + num + `)(?: (?:input |prompt )?tokens?)?(?: \+ (?P<output>` + num + `)(?: tokens?)?)? (?:>=?|exceeds) (?P<window>` + num + `)`,
		source: "https://github.com/continuedev/continue/issues/6136"},
	{name: "num.total-both", stage: stageNumber, text: `\b(?:input|prompt) and (?:max(?:imum)? )?(?:output|completion) tokens:? ?\(?(?P<total>` + num + `)`,
		source: "Cloudflare Workers AI, error 5021"},
	{name: "num.range", stage: stageNumber, text: `length should be \[\d+, ?(?P<limit>` + num + `)\]`,
		source: "https://github.com/QwenLM/qwen-code/issues/98"},
	{name: "num.max-input", stage: stageNumber,
		text:   `\bmax(?:imum)?(?: (?:allowed|supported|permitted|number|of|total))*[ _](?:input|prompt)(?:[ _](?:token|tokens|length|count|size|limit|len|is|of|allowed|for|this|model))*[:=]? ?\(?(?P<limit>` + num + `)`,
		source: "https://github.com/earendil-works/pi/issues/4943"},
	{name: "num.supports", stage: stageNumber, text: `\b(?:supports?|accepts?|allows?|takes?)(?: only)? (?:up to|at most|only|a maximum of|max(?:imum)?) (?P<rough>` + num + `)`,
		source: "https://github.com/google-gemini/gemini-cli/issues/19727"},
	{name: "num.window-of", stage: stageNumber, text: `(?P<window>` + num + `) (?:tokens? )?max(?:imum)? context`,
		source: "https://discuss.google.dev/t/mistral-large-2407-inference-context-length-error/165446"},
	{name: "num.window", stage: stageNumber,
		text:   `\b(?:context|sequence|model|max_?(?:model|seq(?:uence)?|context|total|num)|n)[ _]?(?:length|window|size|len|ctx|limit|tokens)(?:_\w+)?(?: (?:is|of|was|has|limit|only|for|this|the|model|configured|to|at|size|length|tokens?|currently))*[:=]? ?\(?(?P<window>` + num + `)`,
		source: "https://github.com/crewAIInc/crewAI-examples/issues/121"},
	{name: "num.window-n-ctx", stage: stageNumber, text: `\bn_ctx\w*[ :=]*\(?(?P<window>` + num + `)`,
		source: "https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/1251"},
	{name: "num.output-of", stage: stageNumber,
		text:   `(?P<output>` + num + `) (?:tokens? )?(?:in|for|of|as) (?:the |your )?(?:completion|output|response|generation|reply)\b`,
		source: "https://github.com/acheong08/ChatGPT/issues/501"},
	{name: "num.output-tokens", stage: stageNumber,
		text:   `(?P<output>` + num + `) (?:output|completion|response|max_?new_?|new) ?tokens`,
		source: "https://github.com/anomalyco/opencode/issues/17746"},
	{name: "num.output-param", stage: stageNumber,
		text:   `\bmax_?(?:completion_|new_|output_)?tokens\b(?: (?:or|is|of|max_completion_tokens|too|large|requested))*[:=]? ?\(?(?P<output>` + num + `)`,
		source: "https://github.com/vllm-project/vllm/issues/20409"},
	{name: "num.output-max-new", stage: stageNumber, text: `\bmax(?:imum)? (?:new|output) tokens:? ?\(?(?P<output>` + num + `)`,
		source: "https://github.com/NVIDIA/TensorRT-LLM/pull/7239"},
	{name: "num.part", stage: stageNumber,
		text:   `(?P<part>` + num + `) (?:tokens? )?(?:in|of|for|from|via|as) (?:the |your )?(?:input (?:messages?|prompt)|system prompt|messages?|prompt|functions?|tools?|tool (?:definitions?|schemas?)|(?:text|tool|image|audio|video|file|cached) inputs?|inputs?)\b`,
		source: "https://github.com/autohandai/code-cli/issues/100"},
	{name: "num.limit-less", stage: stageNumber,
		text:   `\b(?:no more|not more|less|fewer|smaller|lower) than (?:or equal to )?(?:max_\w+ \()?(?P<limit>` + num + `)|\b(?:at most|up to|cannot exceed|not exceed) (?:the )?(?:[a-z_]+ ){0,4}?(?P<limit2>` + num + `)`,
		source: "https://github.com/stanford-crfm/helm/issues/1820"},
	{name: "num.limit-le", stage: stageNumber, text: `\bmust be <=? ?(?P<window>` + num + `)`,
		source: "https://github.com/BerriAI/litellm/issues/4934"},
	{name: "num.allowed", stage: stageNumber, text: `\b(?:tokens? )?allowed(?: (?:is|for this model|by the model))*:? ?\(?(?P<rough>` + num + `)`,
		source: "https://github.com/google-gemini/gemini-cli/issues/6678"},
	{name: "num.limit", stage: stageNumber,
		text:   `\blimit(?: (?:for|of|is|was|this|the|model|set|to|at|currently))*[:=]? ?(?P<rough>` + num + `)|\blimit \((?P<rough2>` + num + `) tokens?\)`,
		source: "https://github.com/jjleng/copilot-more/issues/35"},
	{name: "num.max", stage: stageNumber,
		text:   `\bmax(?:imum)?(?:[ _](?:is|size|of|allowed|number|tokens?|length|total|the|supported|len|input|sequence))*[:=]? ?(?P<rough>` + num + `)|\bmax(?:imum)?(?:[ _](?:is|size|of|allowed|number|tokens?|length|total|the|supported|len|input|sequence))+[:=]? ?\((?P<rough2>` + num + `)`,
		source: "https://github.com/Aider-AI/aider/issues/2296"},
	{name: "num.max-behind", stage: stageNumber, text: `(?P<rough>` + num + `) (?:tokens? )?(?:is the )?(?:max(?:imum)?|limit)\b`,
		source: "https://github.com/RooCodeInc/Roo-Code/issues/5816"},
	{name: "num.input-tokens", stage: stageNumber, text: `(?P<input>` + num + `) (?:inputs?|prompt) tokens\b`,
		source: "https://github.com/anomalyco/opencode/issues/17746"},
	{name: "num.input", stage: stageNumber,
		text:   `\b(?:inputs?|prompt|request|messages?|conversation|query)(?:[ _](?:length|size|tokens?|token|count|is|of|has|have|contains?|at least|about|approximately|with|was|used|the|text|input|prompt|resulted in|too|long|you|passed|sent|provided|requested|a total|sequence))*[:,]? ?\(?(?:length |size |about |approximately |at least |~)?(?P<input>` + num + `)`,
		source: "https://github.com/archi-physics/archi/issues/497"},
	{name: "num.input-requested", stage: stageNumber,
		text:   `\b(?:requested|resulted in|contains?|received|given|got|passed|sent|provided|has|used)(?: (?:tokens?|about|at least|approximately|a total of|length))*[:=]? ?\(?(?P<input>` + num + `)`,
		source: "https://github.com/fedora-copr/logdetective-website/pull/193"},
	{name: "num.input-keep", stage: stageNumber, text: `\bkeep the first (?P<input>` + num + `)|\bn_keep[: ]+\(?(?P<input2>` + num + `)`,
		source: "https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/546"},
	{name: "num.input-current", stage: stageNumber, text: `\b(?:current|actual|token|total)(?: (?:token|tokens))? ?(?:length|count|size)?(?: (?:is|of|was))?[:=]? ?\(?(?P<input>` + num + `)`,
		source: "https://github.com/cline/cline/issues/5140"},
	{name: "num.total", stage: stageNumber, text: `\btokens? \((?P<total>` + num + `)\)|\btotal of (?:at least )?(?P<total2>` + num + `)`,
		source: "Cloudflare Workers AI, error 5021"},
}
