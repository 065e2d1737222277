package opensandbox

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path"
	"strings"
	"testing"
	"time"
)

// Tests against a real server, which OPEN_SANDBOX_DOMAIN and OPEN_SANDBOX_API_KEY name.

func realSandbox(t *testing.T) (context.Context, *Sandbox) {
	if os.Getenv(EnvDomain) == "" {
		t.Skip("OPEN_SANDBOX_DOMAIN names no server")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	sandbox, err := CreateSandbox(ctx, ConnectionConfig{}, SandboxCreateOptions{Image: "host",
		Env: map[string]string{"GREETING": "hello"}, Metadata: map[string]string{"test": "go"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sandbox.Kill(context.Background()); err != nil && !IsNotFound(err) {
			t.Error(err)
		}
	})
	return ctx, sandbox
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestServerLife(t *testing.T) {
	ctx, sandbox := realSandbox(t)
	info, err := sandbox.GetInfo(ctx)
	must(t, err)
	if info.Status.State != StateRunning || info.Metadata["test"] != "go" || info.ExpiresAt == nil {
		t.Errorf("%+v", info)
	}
	renewed, err := sandbox.Renew(ctx, time.Hour)
	must(t, err)
	if !strings.HasPrefix(renewed.ExpiresAt.UTC().Format(time.RFC3339),
		time.Now().Add(time.Hour).UTC().Format("2006-01-02T15")) {
		t.Errorf("expires at %v", renewed.ExpiresAt)
	}
	gone := (*string)(nil)
	info, err = sandbox.PatchMetadata(ctx, MetadataPatch{"test": gone})
	must(t, err)
	if _, there := info.Metadata["test"]; there {
		t.Errorf("metadata %v", info.Metadata)
	}
	must(t, sandbox.Pause(ctx))
	again, err := sandbox.Resume(ctx)
	must(t, err)
	if !again.IsHealthy(ctx) {
		t.Error("it does not answer after resume")
	}
	manager := NewSandboxManager(ConnectionConfig{})
	found := false
	must(t, manager.EachSandbox(ctx, ListOptions{States: []string{StateRunning}},
		func(info SandboxInfo) error { found = found || info.ID == sandbox.ID(); return nil }))
	if !found {
		t.Error("it is not listed")
	}
	must(t, sandbox.Kill(ctx))
	if _, err := sandbox.GetInfo(ctx); !IsNotFound(err) {
		t.Errorf("after its end: %v", err)
	}
}

func TestServerCommands(t *testing.T) {
	ctx, sandbox := realSandbox(t)
	run, err := sandbox.RunCommand(ctx, "echo $GREETING; echo oops >&2; exit 3", nil)
	must(t, err)
	if run.Text() != "hello" || run.StderrText() != "oops" || *run.ExitCode != 3 {
		t.Errorf("%+v", run)
	}
	run, err = sandbox.RunCommandWithOpts(ctx, RunCommandRequest{Command: "echo out; sleep 100",
		Background: true}, nil)
	must(t, err)
	status, err := sandbox.GetCommandStatus(ctx, run.ID)
	must(t, err)
	if !status.Running {
		t.Errorf("%+v", status)
	}
	for logs := ""; logs != "out\n"; {
		answer, err := sandbox.GetCommandLogs(ctx, run.ID, nil)
		must(t, err)
		logs = answer.Output
	}
	must(t, sandbox.InterruptCommand(ctx, run.ID))
	session, err := sandbox.CreateSession(ctx)
	must(t, err)
	_, err = sandbox.RunInSession(ctx, session, RunInSessionRequest{Command: "cd /tmp; export A=1"}, nil)
	must(t, err)
	run, err = sandbox.RunInSession(ctx, session, RunInSessionRequest{Command: "echo $PWD $A"}, nil)
	must(t, err)
	if run.Text() != "/tmp 1" {
		t.Errorf("%+v", run)
	}
	must(t, sandbox.DeleteSession(ctx, session))
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if _, err := sandbox.RunCommand(short, "sleep 100", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a cancelled run: %v", err)
	}
}

func TestServerIdempotencyKey(t *testing.T) {
	ctx, first := realSandbox(t)
	opts := SandboxCreateOptions{Image: "host", IdempotencyKey: "go " + first.ID()}
	made, err := CreateSandbox(ctx, ConnectionConfig{}, opts)
	must(t, err)
	again, err := CreateSandbox(ctx, ConnectionConfig{}, opts)
	must(t, err)
	if made.ID() != again.ID() || made.ID() == first.ID() {
		t.Errorf("%s, again %s", made.ID(), again.ID())
	}
	opts.Env = map[string]string{"A": "b"}
	var api *APIError
	if _, err := CreateSandbox(ctx, ConnectionConfig{}, opts); !errors.As(err, &api) || api.StatusCode != 422 {
		t.Errorf("another body: %v", err)
	}
	must(t, made.Kill(ctx))
}

func TestServerIsolatedSession(t *testing.T) {
	ctx, sandbox := realSandbox(t)
	can, err := sandbox.GetIsolationCapabilities(ctx)
	must(t, err)
	if !can.Available || can.Isolator == "" || !can.CommitSupported {
		t.Errorf("%+v", can)
	}
	uid, gid, idle := int64(1000), int64(1001), int64(600)
	session, err := sandbox.CreateIsolatedSession(ctx, CreateIsolatedSessionRequest{
		Workspace: &IsolatedWorkspace{Path: "/srv/i"}, UID: &uid, GID: &gid, IdleTimeoutSeconds: &idle})
	must(t, err)
	limit := int64(60)
	said := ""
	run, err := session.Run(ctx, IsolatedRunRequest{
		Code: "pwd; id -u; id -g; echo $A; kept=yes; echo new > mine; echo bad >&2; (exit 3)",
		Envs: map[string]string{"A": "b c"}, TimeoutSeconds: &limit,
	}, &ExecutionHandlers{OnStdout: func(m OutputMessage) error { said += m.Text + "|"; return nil }})
	must(t, err)
	if said != "/srv/i|1000|1001|b c|" || run.StderrText() != "bad" || run.ExitCode == nil ||
		*run.ExitCode != 3 {
		t.Errorf("%q %+v", said, run)
	}
	state, err := session.State(ctx)
	must(t, err)
	if state.Status != "active" || state.IdleRemainingSeconds == nil || *state.IdleRemainingSeconds > 600 ||
		state.Profile != "strict" || state.Workspace.Mode != "overlay" {
		t.Errorf("%+v", state)
	}
	listed, err := sandbox.ListIsolatedSessions(ctx)
	must(t, err)
	if len(listed) != 1 || listed[0].SessionID != session.ID() {
		t.Errorf("%+v", listed)
	}
	again, err := sandbox.AttachIsolatedSession(ctx, session.ID())
	must(t, err)
	if info := again.Info(); info.GID == nil || *info.GID != 1001 || info.IdleTimeoutSeconds != 600 {
		t.Errorf("%+v", info)
	}
	run, err = again.Run(ctx, IsolatedRunRequest{Code: "echo $kept"}, nil)
	must(t, err)
	if run.Text() != "yes" {
		t.Errorf("%+v", run)
	}
	must(t, session.Delete(ctx))
	if _, err := session.State(ctx); !IsNotFound(err) {
		t.Errorf("after its end: %v", err)
	}
}

func TestServerIsolatedLayer(t *testing.T) {
	ctx, sandbox := realSandbox(t)
	session, err := sandbox.CreateIsolatedSession(ctx, CreateIsolatedSessionRequest{
		Workspace: &IsolatedWorkspace{Path: "/srv/l"}})
	must(t, err)
	must(t, session.Files().UploadFiles(ctx, []UploadFileEntry{{File: strings.NewReader("new\n"),
		Options: UploadFileOptions{Metadata: FileMetadata{Path: "/srv/l/mine"}}}}))
	run, err := session.Run(ctx, IsolatedRunRequest{Code: "cat mine"}, nil)
	must(t, err)
	below, err := sandbox.RunCommand(ctx, "ls /srv/l", nil)
	must(t, err)
	if run.Text() != "new" || below.Text() != "" {
		t.Errorf("%+v, below %+v", run, below)
	}
	diff, err := session.Diff(ctx)
	must(t, err)
	unpacked, err := gzip.NewReader(diff)
	must(t, err)
	found := false
	for archive := tar.NewReader(unpacked); ; {
		head, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		found = found || path.Base(head.Name) == "mine"
	}
	diff.Close()
	done, err := session.Commit(ctx, CommitIsolatedRequest{ResetUpperAfter: true})
	must(t, err)
	below, err = sandbox.RunCommand(ctx, "cat /srv/l/mine", nil)
	must(t, err)
	if !found || done.FilesWritten != 1 || !done.UpperReset || below.Text() != "new" {
		t.Errorf("found %t, %+v, %+v", found, done, below)
	}
	started, err := session.RunBackground(ctx, IsolatedRunRequest{Code: "echo $A; echo two >&2; exit 4",
		Envs: map[string]string{"A": "one"}})
	must(t, err)
	status, err := session.GetRunStatus(ctx, started.RunID)
	for ; err == nil && status.Running; status, err = session.GetRunStatus(ctx, started.RunID) {
	}
	must(t, err)
	if status.ExitCode == nil || *status.ExitCode != 4 || status.FinishedAt == nil {
		t.Errorf("%+v", status)
	}
	from := int64(4)
	logs, err := session.GetRunLogs(ctx, started.RunID, &from)
	must(t, err)
	if logs.Output != "two\n" || logs.Cursor != 8 {
		t.Errorf("%+v", logs)
	}
	must(t, session.Delete(ctx))
	run, err = sandbox.RunIsolated(ctx, CreateIsolatedSessionRequest{
		Workspace: &IsolatedWorkspace{Path: "/srv/o", Mode: "rw"}},
		IsolatedRunRequest{Code: "echo $((6 * 7))"}, nil)
	must(t, err)
	listed, err := sandbox.ListIsolatedSessions(ctx)
	must(t, err)
	if run.Text() != "42" || len(listed) != 0 {
		t.Errorf("%+v, left %+v", run, listed)
	}
}

func TestIsolatedArguments(t *testing.T) {
	execd := NewExecdClient("http://127.0.0.1:1", "")
	session := execd.isolatedSession(IsolatedSessionState{SessionID: "a"})
	ctx := context.Background()
	_, both := execd.CreateIsolatedSession(ctx, CreateIsolatedSessionRequest{})
	_, blank := session.Run(ctx, IsolatedRunRequest{Code: " "}, nil)
	_, background := session.Run(ctx, IsolatedRunRequest{Code: "x", Background: true}, nil)
	_, id := execd.AttachIsolatedSession(ctx, "")
	for _, err := range []error{both, blank, background, id} {
		var wrong *InvalidArgumentError
		if !errors.As(err, &wrong) {
			t.Errorf("%v", err)
		}
	}
}

func TestServerFiles(t *testing.T) {
	ctx, sandbox := realSandbox(t)
	must(t, sandbox.CreateDirectory(ctx, "/tmp/d/e", 750))
	must(t, sandbox.UploadFile(ctx, strings.NewReader("one\ntwo\n"),
		UploadFileOptions{Metadata: FileMetadata{Path: "/tmp/d/e/f.txt", Mode: 640}}))
	infos, err := sandbox.GetFileInfo(ctx, "/tmp/d/e/f.txt")
	must(t, err)
	if info := infos["/tmp/d/e/f.txt"]; info.Size != 8 || info.Mode != 640 || info.Type != "file" {
		t.Errorf("%+v", info)
	}
	for want, open := range map[string]func() (io.ReadCloser, error){
		"one\ntwo\n": func() (io.ReadCloser, error) { return sandbox.DownloadFile(ctx, "/tmp/d/e/f.txt", "") },
		"ne":         func() (io.ReadCloser, error) { return sandbox.DownloadFile(ctx, "/tmp/d/e/f.txt", "bytes=1-2") },
		"two": func() (io.ReadCloser, error) {
			return sandbox.DownloadFile(ctx, "/tmp/d/e/f.txt", "", DownloadFileOptions{Offset: 2, Limit: 1})
		},
	} {
		body, err := open()
		must(t, err)
		text, err := io.ReadAll(body)
		must(t, err)
		body.Close()
		if string(text) != want {
			t.Errorf("%q, not %q", text, want)
		}
	}
	counts, err := sandbox.ReplaceInFilesDetailed(ctx, ReplaceRequest{"/tmp/d/e/f.txt": {Old: "o", New: "0"}})
	must(t, err)
	if counts["/tmp/d/e/f.txt"] != 2 {
		t.Errorf("%v", counts)
	}
	must(t, sandbox.MoveFiles(ctx, MoveRequest{{Src: "/tmp/d/e/f.txt", Dest: "/tmp/d/g.txt"}}))
	found, err := sandbox.SearchFiles(ctx, "/tmp/d", "*.txt")
	must(t, err)
	if len(found) != 1 || found[0].Path != "/tmp/d/g.txt" {
		t.Errorf("%+v", found)
	}
	listed, err := sandbox.ListDirectory(ctx, "/tmp/d")
	must(t, err)
	if len(listed) != 2 {
		t.Errorf("%+v", listed)
	}
	tar, err := sandbox.Execd().DownloadDirectory(ctx, "/tmp/d")
	must(t, err)
	must(t, sandbox.Execd().UploadDirectory(ctx, "/tmp/copy", tar))
	tar.Close()
	run, err := sandbox.RunCommand(ctx, "diff -r /tmp/d /tmp/copy && echo same", nil)
	must(t, err)
	if run.Text() != "same" {
		t.Errorf("%+v", run)
	}
	must(t, sandbox.DeleteFiles(ctx, []string{"/tmp/d/g.txt"}))
	must(t, sandbox.DeleteDirectory(ctx, "/tmp/d"))
	if _, err := sandbox.DownloadFile(ctx, "/tmp/d/g.txt", ""); !IsNotFound(err) {
		t.Errorf("a file that is gone: %v", err)
	}
}

func TestServerCode(t *testing.T) {
	ctx, sandbox := realSandbox(t)
	interpreter := &CodeInterpreter{sandbox}
	run, err := interpreter.Execute(ctx, "python", "x = 20\nprint('hi')\nx + 2", nil)
	must(t, err)
	if run.Text() != "hi" || run.ResultText() != "22" {
		t.Errorf("%+v", run)
	}
	own, err := sandbox.CreateContext(ctx, CreateContextRequest{Language: "python"})
	must(t, err)
	run, err = interpreter.ExecuteInContext(ctx, own.ID, "python", "x", nil)
	must(t, err)
	if run.Error == nil || run.Error.Name != "NameError" {
		t.Errorf("%+v", run)
	}
	must(t, sandbox.DeleteContext(ctx, own.ID))
}

func TestServerTerminal(t *testing.T) {
	ctx, sandbox := realSandbox(t)
	terminal, err := sandbox.OpenPTY(ctx, PTYOptions{})
	must(t, err)
	defer terminal.Close()
	must(t, terminal.Resize(100, 40))
	_, err = terminal.Write([]byte("stty size; exit 7\n"))
	must(t, err)
	text, err := io.ReadAll(terminal)
	must(t, err)
	if code, ended := terminal.ExitCode(); !ended || code != 7 || !strings.Contains(string(text), "40 100") {
		t.Errorf("%d %t %q", code, ended, text)
	}
}

func TestServerSnapshotAndFork(t *testing.T) {
	ctx, sandbox := realSandbox(t)
	_, err := sandbox.RunCommand(ctx, "echo kept > /root/kept", nil)
	must(t, err)
	snapshot, err := sandbox.CreateSnapshot(ctx, CreateSnapshotRequest{Name: "go"})
	must(t, err)
	_, err = sandbox.Lifecycle().WaitForSnapshot(ctx, snapshot.ID)
	must(t, err)
	defer sandbox.Lifecycle().DeleteSnapshot(ctx, snapshot.ID)
	restored, err := CreateSandbox(ctx, ConnectionConfig{}, SandboxCreateOptions{SnapshotID: snapshot.ID})
	must(t, err)
	defer restored.Kill(ctx)
	forks, err := sandbox.Fork(ctx, ForkRequest{Count: 2})
	must(t, err)
	for _, box := range append(forks, restored) {
		run, err := box.RunCommand(ctx, "cat /root/kept", nil)
		must(t, err)
		if run.Text() != "kept" {
			t.Errorf("%+v", run)
		}
	}
	for _, fork := range forks {
		must(t, fork.Kill(ctx))
	}
}
