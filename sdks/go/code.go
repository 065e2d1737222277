package opensandbox

import (
	"context"
	"time"
)

// Defaults of CreateCodeInterpreter.
const (
	DefaultCodeInterpreterImage          = "opensandbox/code-interpreter:latest"
	defaultCodeInterpreterTimeoutSeconds = 900
)

// DefaultCodeInterpreterEntrypoint starts the kernels of the code interpreter image.
func DefaultCodeInterpreterEntrypoint() []string {
	return []string{"/opt/code-interpreter/code-interpreter.sh"}
}

// CodeInterpreter is a sandbox whose image has kernels for code.
type CodeInterpreter struct{ *Sandbox }

// CodeInterpreterCreateOptions says what to create; the zero value is the default image.
type CodeInterpreterCreateOptions struct {
	Image               string
	Entrypoint          []string
	ResourceLimits      map[string]string
	TimeoutSeconds      *int // 900 unless given
	Env                 map[string]string
	Metadata            map[string]string
	SkipHealthCheck     bool
	ReadyTimeout        time.Duration
	HealthCheckInterval time.Duration
}

// CreateCodeInterpreter creates a sandbox for code and waits until it answers.
func CreateCodeInterpreter(ctx context.Context, config ConnectionConfig,
	opts CodeInterpreterCreateOptions) (*CodeInterpreter, error) {
	timeout := defaultCodeInterpreterTimeoutSeconds
	if opts.TimeoutSeconds != nil {
		timeout = *opts.TimeoutSeconds
	}
	if len(opts.Entrypoint) == 0 {
		opts.Entrypoint = DefaultCodeInterpreterEntrypoint()
	}
	sandbox, err := CreateSandbox(ctx, config, SandboxCreateOptions{
		Image:      orDefault(opts.Image, DefaultCodeInterpreterImage),
		Entrypoint: opts.Entrypoint, ResourceLimits: opts.ResourceLimits, TimeoutSeconds: &timeout,
		Env: opts.Env, Metadata: opts.Metadata, SkipHealthCheck: opts.SkipHealthCheck,
		ReadyTimeout: opts.ReadyTimeout, HealthCheckInterval: opts.HealthCheckInterval})
	if err != nil {
		return nil, err
	}
	return &CodeInterpreter{sandbox}, nil
}

// Execute runs a cell in the default context of a language, whose variables stay; "" is Python.
func (c *CodeInterpreter) Execute(ctx context.Context, language, code string,
	handlers *ExecutionHandlers) (*Execution, error) {
	return c.ExecuteInContext(ctx, "", language, code, handlers)
}

// ExecuteInContext runs a cell in a context of its own.
func (c *CodeInterpreter) ExecuteInContext(ctx context.Context, contextID, language, code string,
	handlers *ExecutionHandlers) (*Execution, error) {
	if contextID == "" {
		language = orDefault(language, "python")
	}
	return c.ExecuteCode(ctx, RunCodeRequest{Code: code,
		Context: &CodeContextRef{ID: contextID, Language: language}}, handlers)
}
