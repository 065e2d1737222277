//go:build tools

// Package tools pins the Go programs our parsers are tested with: Go 1.19 (Debian 12) and newer.
// toml-test asks for an untagged commit of BurntSushi/toml; go.mod takes the next release instead.
package tools

import _ "github.com/toml-lang/toml-test/cmd/toml-test"
