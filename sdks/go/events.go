package opensandbox

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
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

// brokenStream is ErrStreamEnded with what broke the connection.
type brokenStream struct{ cause error }

func (b *brokenStream) Error() string        { return ErrStreamEnded.Error() + ": " + b.cause.Error() }
func (b *brokenStream) Is(target error) bool { return target == ErrStreamEnded }
func (b *brokenStream) Unwrap() error        { return b.cause }

// commentEvent is the Event of a comment, which says that the server is there. Only the watchdog gets it.
const commentEvent = ":"

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
			return &brokenStream{err}
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
		case name == "":
			err = take(StreamEvent{Event: commentEvent})
		default:
			err = nil // a field that nobody uses
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
	headers := map[string]string{"Accept": "text/event-stream"}
	for name, value := range r.headers {
		headers[name] = value
	}
	r.headers = headers
	res, err := c.open(ctx, r)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	dog := &watchdog{idle: c.idle, bite: res.Body.(*cancelBody).cancel}
	defer dog.stop()
	if err := readEvents(res.Body, dog.watch(take)); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return err
	}
	return nil
}

// endless is stream for events that never end by themselves: an end is an error.
func (c *Client) endless(ctx context.Context, r *request, take EventHandler) error {
	if err := c.stream(ctx, r, take); err != nil {
		return err
	}
	return ErrStreamEnded
}

// watchdog ends a stream whose pings stay away: a half-open connection brings neither bytes nor an end.
// It sleeps until the first ping, and while an event is handled.
type watchdog struct {
	idle  time.Duration
	bite  func()
	timer *time.Timer
}

func (w *watchdog) watch(take EventHandler) EventHandler {
	return func(event StreamEvent) error {
		w.stop()
		isComment := event.Event == commentEvent && event.Data == ""
		if !isComment {
			if err := take(event); err != nil {
				return err
			}
		}
		if w.timer != nil {
			w.timer.Reset(w.idle)
		} else if w.idle > 0 && (isComment || pingEvent.MatchString(event.Data)) {
			w.timer = time.AfterFunc(w.idle, w.bite)
		}
		return nil
	}
}

var pingEvent = regexp.MustCompile(`^\{\s*"type"\s*:\s*"ping"`)

func (w *watchdog) stop() {
	if w.timer != nil {
		w.timer.Stop()
	}
}
