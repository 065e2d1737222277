package opensandbox

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// eventBytesMax bounds one line of a stream; a cell may return a large picture.
const eventBytesMax = 64 << 20

// StreamEvent is one event of a stream as it came: a bare JSON object on a line of its own, or the
// fields of a server-sent event.
type StreamEvent struct {
	Event string
	Data  string
	ID    string
}

// EventHandler takes an event; an error ends the stream and is returned by the call.
type EventHandler func(StreamEvent) error

// readEvents hands every event to take until the stream ends. It knows nothing of what events mean.
func readEvents(body io.Reader, take EventHandler) error {
	var event StreamEvent
	var data []string
	flush := func() error {
		if len(data) == 0 {
			event = StreamEvent{}
			return nil
		}
		event.Data = strings.Join(data, "\n")
		done := event
		event, data = StreamEvent{}, nil
		return take(done)
	}
	lines := bufio.NewReaderSize(body, 64<<10)
	for {
		line, err := readLine(lines)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		ended := err != nil
		switch name, value, _ := strings.Cut(line, ":"); {
		case line == "":
			err = flush()
		case strings.HasPrefix(line, "{"):
			err = take(StreamEvent{Event: event.Event, Data: line, ID: event.ID})
		case name == "data":
			data, err = append(data, strings.TrimPrefix(value, " ")), nil
		case name == "event":
			event.Event, err = strings.TrimPrefix(value, " "), nil
		case name == "id":
			event.ID, err = strings.TrimPrefix(value, " "), nil
		default:
			err = nil // a comment, or a field that nobody uses
		}
		if err != nil {
			return err
		}
		if ended {
			return flush()
		}
	}
}

// readLine returns a line without its end; the last one comes with io.EOF.
func readLine(r *bufio.Reader) (string, error) {
	var whole []byte
	for {
		part, err := r.ReadSlice('\n')
		whole = append(whole, part...)
		if len(whole) > eventBytesMax {
			return "", fmt.Errorf("opensandbox: an event is longer than %d bytes", eventBytesMax)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return string(bytes.TrimRight(whole, "\r\n")), err
	}
}

// stream sends a request and hands the events of its answer to take.
func (c *Client) stream(ctx context.Context, r *request, take EventHandler) error {
	r.headers = map[string]string{"Accept": "text/event-stream"}
	res, err := c.open(ctx, r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if err := readEvents(res.Body, take); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	return nil
}
