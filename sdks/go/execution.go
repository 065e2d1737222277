package opensandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// OutputMessage is a piece of output: a line without its newline.
type OutputMessage struct {
	Text      string
	Timestamp int64 // milliseconds since 1970
	IsError   bool  // from standard error
}

// ExecutionResult is one value that code returned or displayed, in every form the kernel gave.
type ExecutionResult struct {
	Results   map[string]string // by MIME type; "text" is "text/plain"
	Timestamp int64
}

// Text returns the plain text form, empty when there is none.
func (r ExecutionResult) Text() string {
	return orDefault(r.Results["text/plain"], r.Results["text"])
}

// ExecutionError is why a command or a cell failed. The Value of a failed command is its exit status.
type ExecutionError struct {
	Name      string
	Value     string
	Traceback []string
	Timestamp int64
}

// ExecutionComplete says that a run came to its end.
type ExecutionComplete struct {
	Timestamp     int64
	ExecutionTime int64 // milliseconds
}

// ExecutionInit carries the id of a run.
type ExecutionInit struct {
	ID        string
	Timestamp int64
}

// Execution is what a run printed, returned and ended with.
type Execution struct {
	ID             string
	ExecutionCount int64
	Stdout         []OutputMessage
	Stderr         []OutputMessage
	Results        []ExecutionResult
	Error          *ExecutionError
	Complete       *ExecutionComplete
	ExitCode       *int // of a foreground command
}

// Text returns standard output, lines joined by newlines.
func (e *Execution) Text() string { return joinOutput(e.Stdout) }

// StderrText returns standard error, lines joined by newlines.
func (e *Execution) StderrText() string { return joinOutput(e.Stderr) }

// ResultText returns the plain text of all results, joined by newlines.
func (e *Execution) ResultText() string {
	texts := make([]string, 0, len(e.Results))
	for _, result := range e.Results {
		texts = append(texts, result.Text())
	}
	return strings.Join(texts, "\n")
}

func joinOutput(messages []OutputMessage) string {
	texts := make([]string, 0, len(messages))
	for _, message := range messages {
		texts = append(texts, strings.TrimSuffix(message.Text, "\n"))
	}
	return strings.Join(texts, "\n")
}

// ExecutionHandlers are called while a run goes on, in order, on the goroutine of the caller. An error
// ends the stream and is returned. With SkipAccumulation the Execution keeps no output.
type ExecutionHandlers struct {
	OnInit           func(ExecutionInit) error
	OnStdout         func(OutputMessage) error
	OnStderr         func(OutputMessage) error
	OnResult         func(ExecutionResult) error
	OnComplete       func(ExecutionComplete) error
	OnError          func(ExecutionError) error
	SkipAccumulation bool
}

// call runs a handler that may be missing.
func call[T any](handler func(T) error, value T) error {
	if handler == nil {
		return nil
	}
	return handler(value)
}

// collector turns events into an Execution.
type collector struct {
	run      *Execution
	handlers ExecutionHandlers
	seen     seenOutput
}

func (c *collector) output(e *ExecutionEvent, isError bool) error {
	message := OutputMessage{Text: e.Text, Timestamp: e.Timestamp, IsError: isError}
	list, handler := &c.run.Stdout, c.handlers.OnStdout
	if isError {
		list, handler = &c.run.Stderr, c.handlers.OnStderr
	}
	if !c.handlers.SkipAccumulation {
		*list = append(*list, message)
	}
	return call(handler, message)
}

func (c *collector) take(event StreamEvent) error {
	e, err := parseExecutionEvent(event)
	if err != nil {
		return err
	}
	c.seen.count(&e)
	return c.takeEvent(&e.ExecutionEvent)
}

func (c *collector) takeEvent(e *ExecutionEvent) error {
	switch e.Type {
	case "init":
		c.run.ID = e.Text
		return call(c.handlers.OnInit, ExecutionInit{ID: e.Text, Timestamp: e.Timestamp})
	case "stdout":
		return c.output(e, false)
	case "stderr":
		return c.output(e, true)
	case "execution_count":
		c.run.ExecutionCount = e.ExecutionCount
	case "result":
		result := ExecutionResult{Results: e.Results, Timestamp: e.Timestamp}
		c.run.Results = append(c.run.Results, result)
		return call(c.handlers.OnResult, result)
	case "execution_complete":
		c.run.Complete = &ExecutionComplete{Timestamp: e.Timestamp, ExecutionTime: e.ExecutionTime}
		return call(c.handlers.OnComplete, *c.run.Complete)
	case "error":
		return c.failure(e)
	}
	return nil
}

func (c *collector) failure(e *ExecutionEvent) error {
	c.run.Error = &ExecutionError{Timestamp: e.Timestamp}
	if e.Error != nil {
		c.run.Error.Name, c.run.Error.Value = e.Error.Ename, e.Error.Evalue
		c.run.Error.Traceback = e.Error.Traceback
	}
	return call(c.handlers.OnError, *c.run.Error)
}

// streamFailure reads {code, message}, which a server sends when it fails in the middle.
func streamFailure(data string) error {
	var failed ErrorResponse
	if json.Unmarshal([]byte(data), &failed) == nil && failed.Code != "" {
		return &APIError{StatusCode: 200, Response: failed}
	}
	return nil
}

// commandEvent is an event of a command: an ExecutionEvent whose line may go on in the next one.
type commandEvent struct {
	ExecutionEvent
	Continues bool `json:"continues"`
}

// parseExecutionEvent reads an event; {code, message} from the server is an error.
func parseExecutionEvent(event StreamEvent) (commandEvent, error) {
	var e commandEvent
	if err := json.Unmarshal([]byte(event.Data), &e); err != nil {
		return e, fmt.Errorf("opensandbox: an event is not JSON: %w", err)
	}
	if e.Type == "" {
		return e, streamFailure(event.Data)
	}
	return e, nil
}

// execute runs what a request starts and follows it to its last event. With follow, a stream that
// breaks is followed up by the status and the logs of the command.
func (c *Client) execute(ctx context.Context, r *request, handlers *ExecutionHandlers,
	follow *ExecdClient) (*Execution, error) {
	collect := collector{run: &Execution{}}
	if handlers != nil {
		collect.handlers = *handlers
	}
	err := c.stream(ctx, r, collect.take)
	run := collect.run
	if run.Error != nil || run.Complete != nil {
		if errors.Is(err, ErrStreamEnded) {
			err = nil // the last event is there
		}
		return run, err
	}
	if err == nil {
		err = ErrStreamEnded
	}
	if errors.Is(err, ErrStreamEnded) && follow != nil && run.ID != "" && !collect.seen.unknown {
		return run, follow.followUp(ctx, &collect, err)
	}
	return run, err
}

// setExitCode derives the exit code of a foreground command from its last event.
func setExitCode(run *Execution) {
	code := 0
	if run.Error != nil {
		parsed, err := strconv.Atoi(run.Error.Value)
		if err != nil {
			return
		}
		code = parsed
	}
	run.ExitCode = &code
}
