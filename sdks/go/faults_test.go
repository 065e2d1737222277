package opensandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Tests of what happens when things break: the right error comes, nothing hangs, and neither a
// connection nor a goroutine stays. The server's own end in the middle of a stream is the case
// stream.cut_before_init and its neighbours of sdks/conformance; here it goes as a whole.

const faultTime = 20 * time.Second

func waitForNone(t *testing.T, r *recorder) {
	t.Helper()
	for end := time.Now().Add(faultTime); r.open.Load() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d connections stay", r.open.Load())
		}
	}
}

func quick(config ConnectionConfig) ConnectionConfig {
	config.Retry = DefaultRetryConfig()
	config.Retry.InitialBackoff = time.Millisecond
	return config
}

// events writes events of a stream and sends them off.
func events(w http.ResponseWriter, lines ...string) {
	for _, line := range lines {
		fmt.Fprint(w, line+"\n\n")
	}
	w.(http.Flusher).Flush()
}

const startedEvent = `{"type":"init","text":"c1","timestamp":1}`

func TestAServerThatDiesInAStreamIsAnError(t *testing.T) {
	r := newRecorder(t)
	r.withSandbox()
	sandbox, err := CreateSandbox(context.Background(), quick(r.config()), SandboxCreateOptions{Image: "i"})
	must(t, err)
	r.routes["POST /box/command"] = func(w http.ResponseWriter, req *http.Request) {
		events(w, startedEvent, `{"type":"stdout","text":"x","timestamp":1}`)
		<-req.Context().Done()
	}
	ctx, cancel := context.WithTimeout(context.Background(), faultTime)
	defer cancel()
	run, err := sandbox.RunCommand(ctx, "x", &ExecutionHandlers{OnStdout: func(OutputMessage) error {
		r.Listener.Close()
		r.CloseClientConnections()
		return nil
	}})
	if !errors.Is(err, ErrStreamEnded) || run.Text() != "x" {
		t.Errorf("%+v %v", run, err)
	}
	if sandbox.IsHealthy(ctx) {
		t.Error("it seems healthy")
	}
	must(t, sandbox.Close())
}

func TestBadGatewaysOfLookupsDoNotFailACreate(t *testing.T) {
	r := newRecorder(t)
	r.withSandbox()
	found, tries := r.routes["GET /v1/sandboxes/s1/endpoints/44772"], 0
	r.routes["GET /v1/sandboxes/s1/endpoints/44772"] = func(w http.ResponseWriter, req *http.Request) {
		if tries++; tries < 3 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		found(w, req)
	}
	sandbox, err := CreateSandbox(context.Background(), quick(r.config()), SandboxCreateOptions{Image: "i"})
	must(t, err)
	if tries != 3 {
		t.Errorf("%d tries", tries)
	}
	must(t, sandbox.Close())
	waitForNone(t, r)

	tries = -100
	_, err = CreateSandbox(context.Background(), quick(r.config()), SandboxCreateOptions{Image: "i"})
	var api *APIError
	if !errors.As(err, &api) || api.StatusCode != http.StatusBadGateway {
		t.Errorf("error %v", err)
	}
	if last := r.seen[len(r.seen)-1]; last.Method != http.MethodDelete {
		t.Errorf("the last request was %s %s", last.Method, last.URL.Path)
	}
	waitForNone(t, r)
}

func TestAHalfOpenStreamIsFollowedUp(t *testing.T) {
	r := newRecorder(t)
	r.withSandbox()
	config := quick(r.config())
	config.StreamIdleTimeout = 50 * time.Millisecond
	sandbox, err := CreateSandbox(context.Background(), config, SandboxCreateOptions{Image: "i"})
	must(t, err)
	r.routes["POST /box/command"] = func(w http.ResponseWriter, req *http.Request) {
		events(w, startedEvent, `{"type":"stdout","text":"one","timestamp":1}`,
			`{"type":"ping","text":"pong","timestamp":1}`)
		<-req.Context().Done() // no byte more, and no end
	}
	r.on("GET /box/command/status/c1", `{"id":"c1","content":"x","running":false,"exit_code":3,`+
		`"error":"exit status 3","started_at":"2026-07-01T09:30:00Z"}`)
	r.routes["GET /box/command/c1/logs"] = func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("EXECD-COMMANDS-TAIL-CURSOR", "8")
		if req.URL.Query().Get("stream") == "stdout" && req.URL.Query().Get("cursor") == "4" {
			fmt.Fprint(w, "two\n")
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), faultTime)
	defer cancel()
	run, err := sandbox.RunCommand(ctx, "x", nil)
	must(t, err)
	if run.Text() != "one\ntwo" || run.ExitCode == nil || *run.ExitCode != 3 {
		t.Errorf("%+v", run)
	}
	must(t, sandbox.Close())
	waitForNone(t, r)
}

func TestASlowReaderGetsEverything(t *testing.T) {
	const lines = 20000
	r := newRecorder(t)
	sandbox := r.sandbox(t)
	r.routes["POST /box/command"] = func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, startedEvent+"\n\n"+`{"type":"ping","text":"pong","timestamp":1}`+"\n\n")
		for n := 0; n < lines; n++ {
			fmt.Fprintf(w, `{"type":"stdout","text":"%s","timestamp":1}`+"\n\n", strings.Repeat("x", 100))
		}
		fmt.Fprint(w, `{"type":"execution_complete","execution_time":1,"timestamp":2}`+"\n\n")
	}
	seen := 0
	_, err := sandbox.RunCommand(context.Background(), "x", &ExecutionHandlers{SkipAccumulation: true,
		OnStdout: func(OutputMessage) error {
			if seen++; seen%5000 == 0 {
				time.Sleep(20 * time.Millisecond)
			}
			return nil
		}})
	if err != nil || seen != lines {
		t.Errorf("%d lines, %v", seen, err)
	}
	must(t, sandbox.Close())
	waitForNone(t, r)
}

func TestTheTimeOfAHandlerDoesNotCountAsSilence(t *testing.T) {
	dog := &watchdog{idle: time.Hour, bite: func() { t.Error("it bit") }}
	watched := dog.watch(func(StreamEvent) error {
		if dog.timer != nil && dog.timer.Stop() {
			t.Error("the timer runs while an event is handled")
		}
		return nil
	})
	line := StreamEvent{Data: `{"type":"stdout","text":"x"}`}
	must(t, watched(line))
	if dog.timer != nil {
		t.Fatal("a server that sends no pings is timed")
	}
	must(t, watched(StreamEvent{Data: `{"type": "ping","text":"pong"}`}))
	must(t, watched(line))
	if !dog.timer.Stop() {
		t.Error("the timer does not run between events")
	}
}

func TestACommentIsASignOfLife(t *testing.T) {
	dog := &watchdog{idle: time.Hour, bite: func() { t.Error("it bit") }}
	events := 0
	watched := dog.watch(func(StreamEvent) error { events++; return nil })
	must(t, readEvents(strings.NewReader("data: {}\n\n: here\n\n"), watched))
	if dog.timer == nil || !dog.timer.Stop() {
		t.Error("a stream of comments is not timed")
	}
	if events != 1 {
		t.Errorf("%d events were handled", events)
	}
}

func TestACancelledCallLeavesNothing(t *testing.T) {
	r := newRecorder(t)
	r.withSandbox()
	sandbox, err := CreateSandbox(context.Background(), quick(r.config()), SandboxCreateOptions{Image: "i"})
	must(t, err)
	gone := make(chan struct{})
	r.routes["POST /box/command"] = func(w http.ResponseWriter, req *http.Request) {
		events(w, startedEvent)
		<-req.Context().Done()
		close(gone)
	}
	ctx, cancel := context.WithCancel(context.Background())
	_, err = sandbox.RunCommand(ctx, "x", &ExecutionHandlers{OnInit: func(ExecutionInit) error {
		cancel()
		return nil
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	<-gone
	must(t, sandbox.Close())
	waitForNone(t, r)
}

func TestADownloadThatBreaksTwiceIsWhole(t *testing.T) {
	whole := strings.Repeat("0123456789", 100000)
	r := newRecorder(t)
	sandbox := r.sandbox(t)
	var ranges []string
	r.routes["GET /box/files/download"] = func(w http.ResponseWriter, req *http.Request) {
		from := 0
		if given := req.Header.Get("Range"); given != "" {
			ranges = append(ranges, given)
			fmt.Sscanf(given, "bytes=%d-", &from)
			w.Header().Set("Content-Length", fmt.Sprint(len(whole)-from))
			w.WriteHeader(http.StatusPartialContent)
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(whole)-from))
		if len(ranges) < 2 {
			fmt.Fprint(w, whole[from:from+300000])
			panic(http.ErrAbortHandler)
		}
		fmt.Fprint(w, whole[from:])
	}
	body, err := sandbox.DownloadFile(context.Background(), "/f", "")
	must(t, err)
	defer body.Close()
	text := new(strings.Builder)
	if _, err := io.Copy(text, body); err != nil || text.String() != whole || len(ranges) != 2 {
		t.Errorf("%d bytes, %v, %v", text.Len(), ranges, err)
	}
}
