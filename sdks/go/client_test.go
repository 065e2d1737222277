package opensandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// recorder is a server that answers by a table and remembers what it was asked.
type recorder struct {
	*httptest.Server
	lock   sync.Mutex
	seen   []*http.Request
	bodies []string
	routes map[string]func(w http.ResponseWriter, r *http.Request)
	open   atomic.Int64 // connections
}

func newRecorder(t *testing.T) *recorder {
	r := &recorder{routes: map[string]func(http.ResponseWriter, *http.Request){}}
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		r.lock.Lock()
		r.seen, r.bodies = append(r.seen, req), append(r.bodies, string(body))
		handler := r.routes[req.Method+" "+req.URL.Path]
		r.lock.Unlock()
		if handler == nil {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"code":"NOT_FOUND","message":"no such route"}`)
			return
		}
		handler(w, req)
	}))
	r.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			r.open.Add(1)
		case http.StateClosed, http.StateHijacked:
			r.open.Add(-1)
		}
	}
	r.Start()
	t.Cleanup(r.Close)
	return r
}

func (r *recorder) on(route, answer string) {
	status := http.StatusOK
	if strings.HasPrefix(route, "POST /v1/sandboxes") {
		status = http.StatusAccepted
	}
	r.routes[route] = func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, answer)
	}
}

func (r *recorder) domain() string { return strings.TrimPrefix(r.URL, "http://") }

func (r *recorder) config() ConnectionConfig {
	return ConnectionConfig{Domain: r.domain(), APIKey: "secret-key"}
}

const runningInfo = `{"id":"s1","status":{"state":"Running"},"entrypoint":["tail"],` +
	`"createdAt":"2026-07-01T09:30:00Z"}`

// withSandbox makes the recorder serve a sandbox whose execd is the recorder itself, below /box.
func (r *recorder) withSandbox() {
	r.on("POST /v1/sandboxes", runningInfo)
	r.on("GET /v1/sandboxes/s1", runningInfo)
	r.on("DELETE /v1/sandboxes/s1", "")
	r.on("GET /v1/sandboxes/s1/endpoints/44772",
		`{"endpoint":"`+r.domain()+`/box","headers":{"X-EXECD-ACCESS-TOKEN":"t0ken"}}`)
	r.on("GET /box/ping", "")
}

func (r *recorder) sandbox(t *testing.T) *Sandbox {
	r.withSandbox()
	sandbox, err := CreateSandbox(context.Background(), r.config(), SandboxCreateOptions{Image: "i"})
	if err != nil {
		t.Fatal(err)
	}
	return sandbox
}

func (r *recorder) stream(path, events string) {
	r.routes[path] = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, events)
	}
}

func TestCreateSendsDefaultsAndKeepsTheKeyOutOfTheSandbox(t *testing.T) {
	r := newRecorder(t)
	sandbox := r.sandbox(t)
	if sandbox.ID() != "s1" {
		t.Errorf("id %q", sandbox.ID())
	}
	var body map[string]any
	if err := json.Unmarshal([]byte(r.bodies[0]), &body); err != nil {
		t.Fatal(err)
	}
	want := `map[entrypoint:[tail -f /dev/null] image:map[uri:i] ` +
		`resourceLimits:map[cpu:1 memory:2Gi] timeout:600]`
	if got := fmt.Sprint(body); got != want {
		t.Errorf("sent %s", got)
	}
	for _, req := range r.seen {
		inside := strings.HasPrefix(req.URL.Path, "/box")
		if key := req.Header.Get("OPEN-SANDBOX-API-KEY"); (key == "") != inside {
			t.Errorf("%s %s carries the key %q", req.Method, req.URL.Path, key)
		}
		if inside && req.Header.Get("X-EXECD-ACCESS-TOKEN") != "t0ken" {
			t.Errorf("%s has no token", req.URL.Path)
		}
	}
	if len(r.seen) != 3 {
		t.Errorf("%d requests for a create, not 3: the egress endpoint is looked up late", len(r.seen))
	}
}

func TestCreateFailsAtOnceWithTheReasonAndDeletes(t *testing.T) {
	r := newRecorder(t)
	r.withSandbox()
	r.on("POST /v1/sandboxes", `{"id":"s1","status":{"state":"Pending"}}`)
	r.on("GET /v1/sandboxes/s1",
		`{"id":"s1","status":{"state":"Failed","reason":"EXITED","message":"no such program"}}`)
	delete(r.routes, "GET /box/ping")
	_, err := CreateSandbox(context.Background(), r.config(), SandboxCreateOptions{Image: "i"})
	var unhealthy *SandboxUnhealthyError
	if !errors.As(err, &unhealthy) || !strings.Contains(err.Error(), "no such program") {
		t.Fatalf("error %v", err)
	}
	if last := r.seen[len(r.seen)-1]; last.Method != http.MethodDelete {
		t.Errorf("the last request was %s %s", last.Method, last.URL.Path)
	}
}

func TestReadyTimeoutNamesTheLastError(t *testing.T) {
	r := newRecorder(t)
	r.withSandbox()
	delete(r.routes, "GET /box/ping")
	_, err := CreateSandbox(context.Background(), r.config(), SandboxCreateOptions{Image: "i",
		ReadyTimeout: 50 * time.Millisecond, HealthCheckInterval: 10 * time.Millisecond})
	var late *SandboxReadyTimeoutError
	if !errors.As(err, &late) || !IsNotFound(err) {
		t.Fatalf("error %v", err)
	}
}

func TestArgumentsAreCheckedBeforeAnyRequest(t *testing.T) {
	r := newRecorder(t)
	seconds, id := 60, int64(1)
	for name, opts := range map[string]SandboxCreateOptions{
		"neither image nor snapshot": {},
		"both":                       {Image: "i", SnapshotID: "s"},
		"timeout and manual":         {Image: "i", TimeoutSeconds: &seconds, ManualCleanup: true},
		"volume without a backend":   {Image: "i", Volumes: []Volume{{Name: "v", MountPath: "/v"}}},
		"relative mount path": {Image: "i", Volumes: []Volume{{Name: "v", MountPath: "v",
			Host: &HostVolume{Path: "/srv"}}}},
	} {
		var invalid *InvalidArgumentError
		if _, err := CreateSandbox(context.Background(), r.config(), opts); !errors.As(err, &invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	execd := NewExecdClient(r.URL, "")
	for name, req := range map[string]RunCommandRequest{
		"blank command":   {Command: "  "},
		"gid without uid": {Command: "id", GID: &id},
	} {
		var invalid *InvalidArgumentError
		if _, err := execd.RunCommand(context.Background(), req, nil); !errors.As(err, &invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(r.seen) != 0 {
		t.Errorf("%d requests were sent", len(r.seen))
	}
}

func TestRunCollectsEventsOfBothForms(t *testing.T) {
	r := newRecorder(t)
	sandbox := r.sandbox(t)
	r.stream("POST /box/command", `{"type":"init","text":"c1","timestamp":1}`+"\n\n"+
		`{"type":"stdout","text":"one","timestamp":2}`+"\n\n"+
		`data: {"type":"stdout","text":"\n","timestamp":3}`+"\n\n"+
		`{"type":"stderr","text":"two","timestamp":4}`+"\n\n"+
		`{"type":"ping","text":"pong","timestamp":4}`+"\n\n"+
		`{"type":"error","error":{"ename":"CommandExecError","evalue":"3","traceback":["exit 3"]},`+
		`"timestamp":5}`+"\n\n")
	var lines []string
	run, err := sandbox.RunCommand(context.Background(), "x", &ExecutionHandlers{
		OnStdout: func(m OutputMessage) error { lines = append(lines, m.Text); return nil }})
	if err != nil {
		t.Fatal(err)
	}
	if run.ID != "c1" || run.Text() != "one\n" || run.StderrText() != "two" || *run.ExitCode != 3 ||
		run.Error.Name != "CommandExecError" || fmt.Sprintf("%q", lines) != `["one" "\n"]` {
		t.Errorf("%+v %q", run, lines)
	}
}

func TestAStreamWithoutItsLastEventIsAnError(t *testing.T) {
	r := newRecorder(t)
	sandbox := r.sandbox(t)
	for name, events := range map[string]string{
		"nothing":   "",
		"only init": `{"type":"init","text":"c1"}` + "\n\n",
		"cut line":  `{"type":"init","text":"c1"}` + "\n\n" + `{"type":"stdout","te`,
	} {
		r.stream("POST /box/command", events)
		if _, err := sandbox.RunCommand(context.Background(), "x", nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	r.routes["POST /box/command"] = func(w http.ResponseWriter, _ *http.Request) {
		conn, buf, _ := w.(http.Hijacker).Hijack()
		fmt.Fprint(buf, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"+
			"1e\r\n{\"type\":\"init\",\"text\":\"c1\"}\n\n\n\r\n")
		buf.Flush()
		conn.Close()
	}
	if _, err := sandbox.RunCommand(context.Background(), "x", nil); !errors.Is(err, ErrStreamEnded) {
		t.Errorf("a broken connection: %v", err)
	}
}

func TestAHandlersErrorEndsTheStream(t *testing.T) {
	r := newRecorder(t)
	sandbox := r.sandbox(t)
	r.stream("POST /box/command", `{"type":"stdout","text":"a"}`+"\n\n"+
		`{"type":"execution_complete"}`+"\n\n")
	mine := errors.New("mine")
	_, err := sandbox.RunCommand(context.Background(), "x",
		&ExecutionHandlers{OnStdout: func(OutputMessage) error { return mine }})
	if !errors.Is(err, mine) {
		t.Errorf("error %v", err)
	}
}

func TestAStreamOutlivesTheRequestTimeout(t *testing.T) {
	r := newRecorder(t)
	r.withSandbox()
	config := r.config()
	config.RequestTimeout = 300 * time.Millisecond
	sandbox, err := CreateSandbox(context.Background(), config, SandboxCreateOptions{Image: "i"})
	if err != nil {
		t.Fatal(err)
	}
	r.routes["POST /box/command"] = func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"type":"init","text":"c1"}`+"\n\n")
		w.(http.Flusher).Flush()
		time.Sleep(2 * config.RequestTimeout) // what is tested is that this limit does not count here
		fmt.Fprint(w, `{"type":"execution_complete","execution_time":600}`+"\n\n")
	}
	run, err := sandbox.RunCommand(context.Background(), "x", nil)
	if err != nil || *run.ExitCode != 0 {
		t.Errorf("%+v %v", run, err)
	}
}

func TestAServerThatDoesNotAnswerIsGivenUp(t *testing.T) {
	r := newRecorder(t)
	released := make(chan struct{})
	r.routes["GET /v1/sandboxes/s1"] = func(_ http.ResponseWriter, req *http.Request) {
		select {
		case <-req.Context().Done():
		case <-released:
		}
	}
	defer close(released)
	config := r.config()
	config.RequestTimeout = 50 * time.Millisecond
	_, err := NewSandboxManager(config).GetSandboxInfo(context.Background(), "s1")
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := NewSandboxManager(r.config()).GetSandboxInfo(ctx, "s1"); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestErrorsCarryStatusCodeMessageAndRequestID(t *testing.T) {
	r := newRecorder(t)
	for body, want := range map[string]ErrorResponse{
		`{"code":"A","message":"b"}`:            {"A", "b"},
		`{"detail":{"code":"A","message":"b"}}`: {"A", "b"},
		`{"detail":"just text"}`:                {CodeUnexpectedResponse, "just text"},
		`<html>oops</html>`:                     {CodeUnexpectedResponse, "<html>oops</html>"},
		"":                                      {CodeUnexpectedResponse, "409 Conflict"},
	} {
		r.routes["GET /v1/sandboxes/s1"] = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Request-ID", "r-7")
			w.WriteHeader(http.StatusConflict)
			fmt.Fprint(w, body)
		}
		_, err := NewSandboxManager(r.config()).GetSandboxInfo(context.Background(), "s1")
		var api *APIError
		if !errors.As(err, &api) || api.StatusCode != 409 || api.RequestID != "r-7" ||
			api.Response != want {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestRetriesHonourRetryAfterAndSpareUnsafeRequests(t *testing.T) {
	r := newRecorder(t)
	config := r.config()
	config.Retry = DefaultRetryConfig()
	config.Retry.InitialBackoff = time.Millisecond
	failures := 0
	r.routes["GET /v1/sandboxes/s1"] = func(w http.ResponseWriter, _ *http.Request) {
		if failures++; failures < 3 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		fmt.Fprint(w, runningInfo)
	}
	manager := NewSandboxManager(config)
	if _, err := manager.GetSandboxInfo(context.Background(), "s1"); err != nil || failures != 3 {
		t.Errorf("%d tries, %v", failures, err)
	}
	creates := 0
	r.routes["POST /v1/sandboxes"] = func(w http.ResponseWriter, _ *http.Request) {
		creates++
		w.WriteHeader(http.StatusBadGateway)
	}
	if _, err := manager.CreateSandbox(context.Background(), CreateSandboxRequest{}); err == nil ||
		creates != 1 {
		t.Errorf("a create was sent %d times, %v", creates, err)
	}
}

func TestConfigReadsEnvironmentAndSchemes(t *testing.T) {
	t.Setenv(EnvDomain, "")
	t.Setenv(EnvProtocol, "")
	t.Setenv(EnvAPIKey, "")
	for domain, want := range map[string]string{
		"":                    "http://localhost:8080/v1",
		"h:1":                 "http://h:1/v1",
		"https://h":           "https://h/v1",
		"https://h/prefix/":   "https://h/prefix/v1",
		"http://h/v1":         "http://h/v1",
		"HTTPS://h.example/a": "https://h.example/a/v1",
	} {
		if got := (ConnectionConfig{Domain: domain}).GetBaseURL(); got != want {
			t.Errorf("%q: %s, not %s", domain, got, want)
		}
	}
	t.Setenv(EnvDomain, "env:2")
	t.Setenv(EnvProtocol, "https")
	t.Setenv(EnvAPIKey, "k")
	c := ConnectionConfig{}
	if c.GetBaseURL() != "https://env:2/v1" || c.GetAPIKey() != "k" {
		t.Errorf("%s %s", c.GetBaseURL(), c.GetAPIKey())
	}
	if got := (ConnectionConfig{Domain: "https://h"}).endpointURL("h/box/1"); got != "https://h/box/1" {
		t.Errorf("endpoint %s", got)
	}
}

func TestUploadStreamsMetadataAndFilesInOrder(t *testing.T) {
	r := newRecorder(t)
	sandbox := r.sandbox(t)
	r.on("POST /box/files/upload", "")
	err := sandbox.UploadFiles(context.Background(), []UploadFileEntry{
		{File: strings.NewReader("first file"), Options: UploadFileOptions{Metadata: FileMetadata{Path: "/t/a", Mode: 644}}},
		{File: strings.NewReader("second file"), Options: UploadFileOptions{Metadata: FileMetadata{Path: "/t/b"}}}})
	if err != nil {
		t.Fatal(err)
	}
	body := r.bodies[len(r.bodies)-1]
	last := -1
	for _, text := range []string{`filename="metadata"`, `"path":"/t/a"`, `filename="a"`, "first file",
		`"path":"/t/b"`, `filename="b"`, "second file"} {
		at := strings.Index(body, text)
		if at <= last {
			t.Errorf("%s is at %d, behind %d", text, at, last)
		}
		last = at
	}
	broken := errors.New("the disk is gone")
	err = sandbox.UploadFile(context.Background(), io.MultiReader(strings.NewReader("x"), failing{broken}),
		UploadFileOptions{Metadata: FileMetadata{Path: "/t/c"}})
	if !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestListFollowsPagesAndEncodesFilters(t *testing.T) {
	r := newRecorder(t)
	r.routes["GET /v1/sandboxes"] = func(w http.ResponseWriter, req *http.Request) {
		page := req.URL.Query().Get("page")
		fmt.Fprintf(w, `{"items":[{"id":"s%s"}],"pagination":{"page":%s,"hasNextPage":%t}}`, page, page,
			page == "1")
	}
	var ids []string
	err := NewSandboxManager(r.config()).EachSandbox(context.Background(),
		ListOptions{States: []string{"Running", "Paused"}, Metadata: map[string]string{"a b": "c&d"}},
		func(info SandboxInfo) error { ids = append(ids, info.ID); return nil })
	if err != nil || fmt.Sprint(ids) != "[s1 s2]" {
		t.Errorf("%v %v", ids, err)
	}
	query := r.seen[0].URL.Query()
	if fmt.Sprint(query["state"]) != "[Running Paused]" || query.Get("metadata") != "a+b=c%26d" {
		t.Errorf("query %v", query)
	}
}

func TestSignedEndpointsAskForAnExpiry(t *testing.T) {
	r := newRecorder(t)
	sandbox := r.sandbox(t)
	r.on("GET /v1/sandboxes/s1/endpoints/8000", `{"endpoint":"h/x"}`)
	endpoint, err := sandbox.GetSignedEndpoint(context.Background(), 8000, time.Unix(1800000000, 0))
	if err != nil || endpoint.Endpoint != "h/x" {
		t.Fatal(endpoint, err)
	}
	if got := r.seen[len(r.seen)-1].URL.RawQuery; got != "expires=1800000000&use_server_proxy=false" {
		t.Errorf("query %s", got)
	}
	if _, err := sandbox.GetEndpoint(context.Background(), 70000); err == nil {
		t.Error("port 70000 was taken")
	}
}

func TestOctalMode(t *testing.T) {
	if OctalMode(0o755) != 755 || OctalMode(0o40) != 40 {
		t.Error(OctalMode(0o755), OctalMode(0o40))
	}
}

func FuzzReadEvents(f *testing.F) {
	f.Add("{\"type\":\"init\"}\n\ndata: a\ndata: b\n\n: comment\n")
	f.Fuzz(func(t *testing.T, text string) {
		_ = readEvents(strings.NewReader(text), func(StreamEvent) error { return nil })
	})
}
