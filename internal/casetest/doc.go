// Package casetest runs the conversations of testdata/cases against the public
// API of this module. testdata/cases/README.md is the specification of their
// language; this package is one implementation of it.
//
//	cases, err := casetest.Load("testdata/cases")
//	for _, c := range cases {
//		report := casetest.Run(ctx, c, nil)
//		...
//	}
//
// A case runs through what any host has: a [session.Session] over a memory
// store, or over a file where it has a log or is reloaded; the default engine
// with the summarizer over a language model, which talks HTTP to a scripted
// server; requests built by wire/openaichat; provider errors judged by package
// overflow. Faults and crashes are those of a store or a file system that fails.
// Nothing of a case but its given part decides what is run, and nothing but its
// expect part what is checked.
//
//	go test ./internal/casetest -cases DIR    another folder of cases
//	go test ./internal/casetest -errors FILE  a file of provider errors
//	go test ./internal/casetest -v            all verdicts, and what was done
package casetest
