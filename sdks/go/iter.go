//go:build go1.23

package opensandbox

import (
	"context"
	"iter"
)

// Sandboxes iterates over every sandbox that opts selects, page by page. An error ends it.
func (c *LifecycleClient) Sandboxes(ctx context.Context, opts ListOptions,
) iter.Seq2[SandboxInfo, error] {
	return func(yield func(SandboxInfo, error) bool) {
		err := c.EachSandbox(ctx, opts, func(info SandboxInfo) error {
			if !yield(info, nil) {
				return errNoMorePages
			}
			return nil
		})
		if err != nil {
			yield(SandboxInfo{}, err)
		}
	}
}

// stopped is what a handler returns when the body of a loop breaks off.
type stopped struct{}

func (stopped) Error() string { return "stopped" }

// Stream iterates over the output of a command as it comes. The last pair may carry an error; a command
// that fails is a *CommandFailedError. Breaking off closes the stream; the command goes on.
func (s *Sandbox) Stream(ctx context.Context, req RunCommandRequest) iter.Seq2[OutputMessage, error] {
	return func(yield func(OutputMessage, error) bool) {
		take := func(message OutputMessage) error {
			if !yield(message, nil) {
				return stopped{}
			}
			return nil
		}
		run, err := s.RunCommandWithOpts(ctx, req,
			&ExecutionHandlers{OnStdout: take, OnStderr: take, SkipAccumulation: true})
		if _, broke := err.(stopped); broke {
			return
		}
		if err == nil && run.Error != nil {
			err = &CommandFailedError{*run.Error}
		}
		if err != nil {
			yield(OutputMessage{}, err)
		}
	}
}

// CommandFailedError says how a streamed command failed.
type CommandFailedError struct{ ExecutionError }

func (e *CommandFailedError) Error() string {
	return "opensandbox: the command failed: " + e.Name + ": " + e.Value
}
