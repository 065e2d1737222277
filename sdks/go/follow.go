package opensandbox

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// This file follows up a foreground command whose stream broke: the command goes on, and the server
// keeps its status and its output.

// seenOutput is how many bytes of output the events so far stand for.
type seenOutput struct {
	stdout, stderr int64
	unknown        bool // bytes that are no UTF-8 came as U+FFFD: their number is not known
}

func (s *seenOutput) count(e *commandEvent) {
	if e.Type != "stdout" && e.Type != "stderr" {
		return
	}
	s.unknown = s.unknown || strings.ContainsRune(e.Text, utf8.RuneError)
	bytes := int64(len(e.Text) + 1) // with its newline
	if e.Text == "\n" {
		bytes = 1 // an empty line
	}
	if e.Continues {
		bytes--
	}
	if e.Type == "stdout" {
		s.stdout += bytes
	} else {
		s.stderr += bytes
	}
}

// followUp waits for the end of the command and hands the rest of its output, and its end, to collect.
// When the server cannot tell them, the broken stream is the error.
func (c *ExecdClient) followUp(ctx context.Context, collect *collector, broken error) error {
	id := collect.run.ID
	var status *CommandStatus
	for pause := 20 * time.Millisecond; ; pause = longer(pause) {
		var err error
		if status, err = c.GetCommandStatus(ctx, id); err != nil {
			return firstError(ctx.Err(), broken)
		}
		if !status.Running {
			break
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
	rests := map[string]string{}
	for stream, from := range map[string]int64{"stdout": collect.seen.stdout,
		"stderr": collect.seen.stderr} {
		rest, err := c.restOfOutput(ctx, id, stream, from)
		if err != nil {
			return firstError(ctx.Err(), broken)
		}
		rests[stream] = rest
	}
	for _, stream := range []string{"stdout", "stderr"} {
		if err := takeLines(collect, stream, rests[stream]); err != nil {
			return err
		}
	}
	return collect.takeEvent(endOf(status))
}

func (c *ExecdClient) restOfOutput(ctx context.Context, id, stream string, from int64,
) (string, error) {
	var text strings.Builder
	for {
		logs, err := c.logs(ctx, id, url.Values{"stream": {stream},
			"cursor": {strconv.FormatInt(from, 10)}})
		if err != nil {
			return "", err
		}
		text.WriteString(logs.Output)
		from += int64(len(logs.Output))
		if logs.Output == "" || logs.Cursor <= from {
			return text.String(), nil
		}
	}
}

func takeLines(collect *collector, stream, text string) error {
	if text == "" {
		return nil
	}
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		event := ExecutionEvent{Type: stream, Text: orDefault(line, "\n")}
		if err := collect.takeEvent(&event); err != nil {
			return err
		}
	}
	return nil
}

// endOf is the last event of a command, made of its status.
func endOf(status *CommandStatus) *ExecutionEvent {
	ended := status.StartedAt
	if status.FinishedAt != nil {
		ended = *status.FinishedAt
	}
	event := &ExecutionEvent{Type: "execution_complete", Timestamp: ended.UnixMilli(),
		ExecutionTime: ended.Sub(status.StartedAt).Milliseconds()}
	code := int64(-1)
	if status.ExitCode != nil {
		code = *status.ExitCode
	}
	if code != 0 {
		event.Type = "error"
		event.Error = &EventError{Ename: "CommandExecError", Evalue: strconv.FormatInt(code, 10),
			Traceback: []string{status.Error}}
	}
	return event
}

// resumed is the body of a download: when its connection breaks it goes on by a range.
type resumed struct {
	ctx    context.Context
	client *ExecdClient
	query  url.Values
	body   *http.Response
	at     int64
	tries  int
}

const resumesMax = 3 // in a row, without a byte between them

func (r *resumed) Read(p []byte) (int, error) {
	for {
		n, err := r.body.Body.Read(p)
		r.at += int64(n)
		if n > 0 {
			r.tries = 0
			return n, nil // an error comes again with the next call
		}
		if err == nil || !isBroken(err) || r.ctx.Err() != nil || r.tries >= resumesMax {
			return 0, err
		}
		r.tries++
		next, failed := r.client.open(r.ctx, &request{method: http.MethodGet,
			path: "/files/download", query: r.query,
			headers: map[string]string{"Range": "bytes=" + strconv.FormatInt(r.at, 10) + "-"}})
		if failed != nil {
			return 0, err
		}
		if next.StatusCode != http.StatusPartialContent {
			next.Body.Close()
			return 0, err
		}
		r.body.Body.Close()
		r.body = next
	}
}

func (r *resumed) Close() error { return r.body.Body.Close() }
