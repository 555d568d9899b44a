// Package overflow answers one question about a provider's error: does it mean
// that the context window was exceeded, and which limit did it name.
package overflow
