// Package deps holds modules in go.mod until their rooms are built.
package deps

import (
	_ "github.com/cenkalti/backoff/v5"
	_ "github.com/clipperhouse/uax29/v2/sentences"
	_ "github.com/kljensen/snowball"
	_ "github.com/pkoukk/tiktoken-go"
	_ "github.com/pkoukk/tiktoken-go-loader"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/sashabaranov/go-openai"
	_ "github.com/spf13/cobra"
	_ "go.uber.org/goleak"
	_ "golang.org/x/sync/errgroup"
	_ "golang.org/x/term"
	_ "pgregory.net/rapid"
)
