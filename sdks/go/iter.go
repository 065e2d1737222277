//go:build go1.23

package opensandbox

import (
	"context"
	"errors"
	"iter"
	"net/http"
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

// Events iterates over what happens to sandboxes; see WatchEvents. It ends by an error, or by breaking off.
func (c *LifecycleClient) Events(ctx context.Context, opts WatchEventsOptions,
) iter.Seq2[LifecycleEvent, error] {
	return func(yield func(LifecycleEvent, error) bool) {
		err := c.WatchEvents(ctx, opts, func(event LifecycleEvent) error {
			if !yield(event, nil) {
				return stopped{}
			}
			return nil
		})
		if _, broke := err.(stopped); !broke {
			yield(LifecycleEvent{}, err)
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

// Events iterates over the events of a command as they come, without pings. A stream without its last
// event is ErrStreamEnded. Breaking off closes the stream; the command goes on.
func (s *Sandbox) Events(ctx context.Context, req RunCommandRequest) iter.Seq2[ExecutionEvent, error] {
	return func(yield func(ExecutionEvent, error) bool) {
		if err := checkCommand(&req); err != nil {
			yield(ExecutionEvent{}, err)
			return
		}
		ended := false
		err := s.execd.stream(ctx, &request{method: http.MethodPost, path: "/command", body: req},
			func(event StreamEvent) error {
				e, err := parseExecutionEvent(event)
				if err != nil || e.Type == "ping" {
					return err
				}
				ended = ended || e.Type == "execution_complete" || e.Type == "error"
				if !yield(e.ExecutionEvent, nil) {
					return stopped{}
				}
				return nil
			})
		if _, broke := err.(stopped); broke || (ended && (err == nil || errors.Is(err, ErrStreamEnded))) {
			return
		}
		if err == nil {
			err = ErrStreamEnded
		}
		yield(ExecutionEvent{}, err)
	}
}

// CommandFailedError says how a streamed command failed.
type CommandFailedError struct{ ExecutionError }

func (e *CommandFailedError) Error() string {
	return "opensandbox: the command failed: " + e.Name + ": " + e.Value
}
