package opensandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// EventReset is the type of the event that says that the events behind WatchEventsOptions.After are not
// kept any more: list the sandboxes anew. It has no other member.
const EventReset = "reset"

// WatchEventsOptions selects what a watch tells of; without any it is everything from now on.
type WatchEventsOptions struct {
	SandboxID string
	After     string // ID of the last event that was seen
}

// WatchEvents calls take for what happens to sandboxes, until ctx ends or take returns an error. A stream
// that breaks is opened again behind the last event; when none came since it was opened, the break is
// ErrStreamEnded.
func (c *LifecycleClient) WatchEvents(ctx context.Context, opts WatchEventsOptions,
	take func(LifecycleEvent) error) error {
	query := url.Values{}
	if opts.SandboxID != "" {
		query.Set("sandboxId", opts.SandboxID)
	}
	for after := opts.After; ; {
		r := &request{method: http.MethodGet, path: "/events", query: query}
		if after != "" {
			r.headers = map[string]string{"Last-Event-ID": after}
		}
		last := ""
		var refused error
		err := c.endless(ctx, r, func(event StreamEvent) error {
			var e LifecycleEvent
			if e, refused = lifecycleEvent(event); refused == nil {
				refused = take(e)
			}
			if e.ID != "" {
				last = e.ID
			}
			return refused
		})
		if refused != nil || last == "" || !errors.Is(err, ErrStreamEnded) {
			return err
		}
		after = last
	}
}

func lifecycleEvent(event StreamEvent) (LifecycleEvent, error) {
	var e LifecycleEvent
	if event.Event == EventReset {
		e.Type = EventReset
	} else if err := json.Unmarshal([]byte(event.Data), &e); err != nil {
		return e, fmt.Errorf("opensandbox: an event is not JSON: %w", err)
	}
	return e, nil
}
