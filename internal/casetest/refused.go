package casetest

import (
	"github.com/agentcompact/agentcompact/compact"
	"github.com/agentcompact/agentcompact/overflow"
)

// refusal is what the library made of a provider's error.
type refusal struct {
	result  overflow.Result
	class   string
	learned bool
	window  int // believed afterwards
}

// overflow hands the provider's error to the library, as an agent's loop does.
func (w *world) overflow(o op) error {
	refused, err := w.build(true)
	if err != nil {
		return err
	}
	res := classify(w.c.Given.ProviderError, w.believed)
	r := &refusal{result: res, window: w.believed}
	w.seen.refusal = r
	r.window, r.learned = res.LearnedWindow(w.believed)
	w.believed = r.window
	if err := w.eng.Learn(w.real, w.agent(), res); err != nil {
		return err
	}
	auto := w.c.Given.Policy.Auto == nil || *w.c.Given.Policy.Auto
	tooLarge := res.Class == overflow.ClassPayloadTooLarge
	if tooLarge {
		if err := w.fewerBytes(len(refused.body), res); err != nil {
			return err
		}
	}
	caller := false
	err = w.measure(o, func() (string, string, error) {
		switch {
		case tooLarge:
			return none, res.String(), nil
		case !res.Overflow || !auto:
			caller = true
			return providerClass(res), res.String(), nil
		}
		before := len(w.attempts())
		out, err := w.eng.Consider(w.real, w.agent(), compact.ContextOverflow)
		return w.judge(before, out, err)
	})
	if err != nil || caller {
		return err
	}
	if err := w.tellCalls(); err != nil {
		return err
	}
	retry, err := w.build(true)
	if err == nil {
		w.seen.requests = append(w.seen.requests, request{chatRequest: retry, modelCall: true})
	}
	return err
}

func classify(p *ProviderError, window int) overflow.Result {
	if p.Stream {
		return overflow.ClassifyStream(p.answer(), overflow.WithWindow(window))
	}
	return overflow.ClassifyResponse(p.Status, p.answer(), overflow.WithWindow(window))
}

// fewerBytes lowers the bound of later requests after one of so many bytes was
// refused: to what the provider stated, else so far that only the newest
// attachment stays, or none if it was the only one.
func (w *world) fewerBytes(refused int, res overflow.Result) error {
	bound := res.ByteLimit * 95 / 100
	if bound == 0 || bound >= refused {
		bare, err := w.buildWithin(true, 1)
		if err != nil {
			return err
		}
		bound = len(bare.Body())
		if left := bare.Report.LeftOut; len(left) > 1 {
			bound += left[len(left)-1].Bytes
		}
	}
	if w.maxBytes == 0 || bound < w.maxBytes {
		w.maxBytes = bound
	}
	return nil
}
