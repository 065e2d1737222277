//go:build tools

// Package tools pins the Go programs our parsers are tested with: Go 1.19 (Debian 12) and newer.
package tools

import _ "github.com/toml-lang/toml-test/v2/cmd/toml-test"
