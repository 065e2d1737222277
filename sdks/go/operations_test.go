//go:build go1.23

package opensandbox

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"io"
	"strings"
	"time"
)

// args are members of a JSON object.
type args map[string]any

func (a args) text(name string) string {
	text, _ := a[name].(string)
	return text
}

func (a args) number(name string) int {
	number, _ := a[name].(float64)
	return int(number)
}

func (a args) pointer(name string) *int64 {
	if number, given := a[name].(float64); given {
		value := int64(number)
		return &value
	}
	return nil
}

func (a args) truth(name string) bool {
	truth, _ := a[name].(bool)
	return truth
}

func (a args) millis(name string) time.Duration {
	return time.Duration(a.number(name)) * time.Millisecond
}

// into decodes a member that has the form of the wire into out.
func (a args) into(name string, out any) {
	if a[name] == nil {
		return
	}
	text, err := json.Marshal(a[name])
	if err == nil {
		err = json.Unmarshal(text, out)
	}
	if err != nil {
		panic(name + ": " + err.Error())
	}
}

func (a args) list(name string) (list []string)                { a.into(name, &list); return }
func (a args) strings(name string) (pairs map[string]string)   { a.into(name, &pairs); return }
func (a args) rows(name string) (rows []args)                  { a.into(name, &rows); return }
func (a args) patch() (patch MetadataPatch)                    { a.into("patch", &patch); return }
func (a args) bindings(name string) (list []CredentialBinding) { a.into(name, &list); return }

func (a args) rules(name string) []NetworkRule {
	var rules []NetworkRule
	a.into(name, &rules)
	return rules
}

// operations are those of sdks/conformance/README.md in terms of this package.
type operations struct {
	settings args
	made     *SandboxManager
	sandbox  *Sandbox
	isolated *IsolatedSession
}

type operation func(ctx context.Context, o *operations, a args) (any, error)

func (o *operations) run(ctx context.Context, name string, with args) (any, error) {
	for _, table := range []map[string]operation{sandboxOperations, commandOperations, fileOperations,
		codeOperations, egressOperations, managerOperations, serverOperations, isolatedOperations,
		eventOperations} {
		if found := table[name]; found != nil {
			return found(ctx, o, with)
		}
	}
	return nil, absent("there is no " + name)
}

func (o *operations) close() {
	if o.sandbox != nil {
		o.sandbox.Close()
	}
	if o.made != nil {
		o.made.Close()
	}
}

func (o *operations) config() ConnectionConfig {
	config := ConnectionConfig{Domain: o.settings.text("domain"), APIKey: o.settings.text("api_key"),
		Protocol: o.settings.text("protocol"), Headers: o.settings.strings("headers"),
		UseServerProxy: o.settings.truth("use_server_proxy"),
		RequestTimeout: o.settings.millis("request_timeout_ms")}
	var retry args
	o.settings.into("retry", &retry)
	if retry != nil {
		config.Retry = DefaultRetryConfig()
		config.Retry.MaxRetries = retry.number("max")
		config.Retry.InitialBackoff = retry.millis("backoff_ms")
	}
	return config
}

func (o *operations) manager() *SandboxManager {
	if o.made == nil {
		o.made = NewSandboxManager(o.config())
	}
	return o.made
}

// nothing is the result of a call that has none.
func nothing(err error) (any, error) { return nil, err }

// formed is the neutral form of a call's answer.
func formed[T any](form func(T) any) func(T, error) (any, error) {
	return func(value T, err error) (any, error) {
		if err != nil {
			return nil, err
		}
		return form(value), nil
	}
}

// each is the list of neutral forms.
func each[T any](form func(*T) any) func([]T) any {
	return func(list []T) any {
		forms := []any{}
		for i := range list {
			forms = append(forms, form(&list[i]))
		}
		return forms
	}
}

func optional(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func instant(at time.Time) any {
	if at.IsZero() {
		return nil
	}
	if at.Nanosecond() == 0 {
		return at.UTC().Format("2006-01-02T15:04:05Z")
	}
	return at.UTC().Format("2006-01-02T15:04:05.000000Z")
}

func maybe(at *time.Time) any {
	if at == nil {
		return nil
	}
	return instant(*at)
}

func infoForm(i *SandboxInfo) any {
	form := args{"id": i.ID, "image": nil, "snapshot_id": optional(i.SnapshotID), "platform": nil,
		"state": i.Status.State, "reason": optional(i.Status.Reason),
		"message": optional(i.Status.Message), "metadata": i.Metadata, "entrypoint": i.Entrypoint,
		"expires_at": maybe(i.ExpiresAt), "created_at": instant(i.CreatedAt)}
	if i.Image != nil {
		form["image"] = i.Image.URI
	}
	if i.Platform != nil {
		form["platform"] = i.Platform
	}
	return form
}

func snapshotForm(s *SnapshotInfo) any {
	return args{"id": s.ID, "sandbox_id": s.SandboxID, "name": optional(s.Name),
		"state": s.Status.State, "created_at": instant(s.CreatedAt)}
}

func pageForm(items any, p PaginationInfo) any {
	return args{"items": items, "page": p.Page, "page_size": p.PageSize,
		"total_items": p.TotalItems, "total_pages": p.TotalPages, "has_next_page": p.HasNextPage}
}

func metricsForm(m Metrics) any {
	return args{"cpu_count": m.CPUCount, "cpu_used_pct": m.CPUUsedPct,
		"mem_total_mib": m.MemTotalMB, "mem_used_mib": m.MemUsedMB, "timestamp": m.Timestamp}
}

func endpointForm(e *Endpoint) any {
	headers := e.Headers
	if headers == nil {
		headers = map[string]string{}
	}
	return args{"endpoint": e.Endpoint, "headers": headers}
}

func renewalForm(r *RenewResponse) any { return args{"expires_at": instant(r.ExpiresAt)} }

func diagnosticForm(d *DiagnosticContent) any {
	return args{"kind": d.Kind, "scope": d.Scope, "delivery": d.Delivery,
		"content_type": d.ContentType, "content": optional(d.Content),
		"content_url": optional(d.ContentURL), "content_length": d.ContentLength,
		"truncated": d.Truncated, "expires_at": maybe(d.ExpiresAt), "warnings": d.Warnings}
}

func outputForm(messages []OutputMessage) []string {
	texts := []string{}
	for _, message := range messages {
		texts = append(texts, message.Text)
	}
	return texts
}

func executionForm(run *Execution) any {
	form := args{"id": optional(run.ID), "stdout": outputForm(run.Stdout),
		"stderr": outputForm(run.Stderr), "error": nil, "complete_ms": nil,
		"exit_code": run.ExitCode, "execution_count": run.ExecutionCount, "text": run.Text()}
	results := []map[string]string{}
	for _, result := range run.Results {
		results = append(results, result.Results)
	}
	form["results"] = results
	if run.Error != nil {
		form["error"] = args{"name": run.Error.Name, "value": run.Error.Value,
			"traceback": run.Error.Traceback}
	}
	if run.Complete != nil {
		form["complete_ms"] = run.Complete.ExecutionTime
	}
	return form
}

func fileForm(f *FileInfo) any {
	return args{"path": f.Path, "type": f.Type, "size": f.Size, "mode": f.Mode, "owner": f.Owner,
		"group": f.Group, "modified_at": instant(f.ModifiedAt), "created_at": instant(f.CreatedAt)}
}

// --- sandboxes ---

func (o *operations) createOptions(a args) SandboxCreateOptions {
	opts := SandboxCreateOptions{Image: a.text("image"), SnapshotID: a.text("snapshot_id"),
		Entrypoint: a.list("entrypoint"), ResourceLimits: a.strings("resource"),
		Env: a.strings("env"), Metadata: a.strings("metadata"), Extensions: a.strings("extensions"),
		IdempotencyKey: a.text("idempotency_key"),
		SecureAccess:   a.truth("secure_access"), SkipHealthCheck: a.truth("skip_health_check"),
		ReadyTimeout: a.millis("ready_timeout_ms"), HealthCheckInterval: a.millis("poll_ms")}
	if seconds := a.pointer("timeout_s"); seconds != nil {
		timeout := int(*seconds)
		opts.TimeoutSeconds = &timeout
	} else {
		_, opts.ManualCleanup = a["timeout_s"]
	}
	a.into("image_auth", &opts.ImageAuth)
	a.into("platform", &opts.Platform)
	a.into("secret_env", &opts.SecretEnv)
	var policy args
	if a.into("network_policy", &policy); policy != nil {
		opts.NetworkPolicy = &NetworkPolicy{DefaultAction: policy.text("default_action"),
			Egress: policy.rules("egress")}
	}
	if a.truth("credential_proxy") {
		opts.CredentialProxy = &CredentialProxyConfig{Enabled: true}
	}
	for _, row := range a.rows("volumes") {
		opts.Volumes = append(opts.Volumes, volume(row))
	}
	return opts
}

func volume(a args) Volume {
	v := Volume{Name: a.text("name"), MountPath: a.text("mount_path"), SubPath: a.text("sub_path"),
		ReadOnly: a.truth("read_only")}
	var pvc, oss args
	a.into("host", &v.Host)
	if a.into("pvc", &pvc); pvc != nil {
		v.PVC = &PVCVolume{ClaimName: pvc.text("claim_name")}
	}
	if a.into("ossfs", &oss); oss != nil {
		v.OSSFS = &OSSFSVolume{Bucket: oss.text("bucket"), Endpoint: oss.text("endpoint"),
			AccessKeyID: oss.text("access_key_id"), AccessKeySecret: oss.text("access_key_secret")}
	}
	return v
}

type connector func(context.Context, ConnectionConfig, string, ...ReadyOptions) (*Sandbox, error)

func connecting(connect connector) operation {
	return func(ctx context.Context, o *operations, a args) (any, error) {
		ready := []ReadyOptions{{Timeout: a.millis("timeout_ms"), PollingInterval: a.millis("poll_ms")}}
		if a.truth("skip_health_check") {
			ready = nil
		}
		return o.keep(connect(ctx, o.config(), a.text("id"), ready...))
	}
}

func (o *operations) keep(sandbox *Sandbox, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	o.sandbox = sandbox
	return args{"id": sandbox.ID()}, nil
}

func showConfig(_ context.Context, o *operations, _ args) (any, error) {
	config := o.config()
	if limit, given := o.settings["request_timeout_ms"]; given && limit == 0.0 {
		return nil, absent("a RequestTimeout of 0 is the default")
	}
	return args{"base_url": config.GetBaseURL(), "api_key": config.GetAPIKey(),
		"protocol": config.GetProtocol()}, config.check()
}

var errEnough = io.EOF // ends a watch

func watchMetrics(ctx context.Context, o *operations, a args) (any, error) {
	seen := []any{}
	err := o.sandbox.Execd().WatchMetrics(ctx, func(m Metrics) error {
		if seen = append(seen, metricsForm(m)); len(seen) == a.number("count") {
			return errEnough
		}
		return nil
	})
	if err == errEnough {
		err = nil
	}
	return seen, err
}

var sandboxOperations = map[string]operation{
	"config.show": showConfig,
	"sandbox.create": func(ctx context.Context, o *operations, a args) (any, error) {
		return o.keep(CreateSandbox(ctx, o.config(), o.createOptions(a)))
	},
	"sandbox.connect": connecting(ConnectSandbox),
	"sandbox.resume":  connecting(ResumeSandbox),
	"sandbox.info": func(ctx context.Context, o *operations, _ args) (any, error) {
		return formed(infoForm)(o.sandbox.GetInfo(ctx))
	},
	"sandbox.renew": func(ctx context.Context, o *operations, a args) (any, error) {
		return formed(renewalForm)(o.sandbox.Renew(ctx, a.millis("seconds")*1000))
	},
	"sandbox.pause": func(ctx context.Context, o *operations, _ args) (any, error) {
		return nothing(o.sandbox.Pause(ctx))
	},
	"sandbox.kill": func(ctx context.Context, o *operations, _ args) (any, error) {
		return nothing(o.sandbox.Kill(ctx))
	},
	"sandbox.close": func(_ context.Context, o *operations, _ args) (any, error) {
		return nothing(o.sandbox.Close())
	},
	"sandbox.patch_metadata": func(ctx context.Context, o *operations, a args) (any, error) {
		return formed(infoForm)(o.sandbox.PatchMetadata(ctx, a.patch()))
	},
	"sandbox.endpoint": func(ctx context.Context, o *operations, a args) (any, error) {
		return formed(endpointForm)(o.sandbox.GetEndpoint(ctx, a.number("port")))
	},
	"sandbox.signed_endpoint": func(ctx context.Context, o *operations, a args) (any, error) {
		expires := time.Unix(int64(a.number("expires")), 0)
		return formed(endpointForm)(o.sandbox.GetSignedEndpoint(ctx, a.number("port"), expires))
	},
	"sandbox.is_healthy": func(ctx context.Context, o *operations, _ args) (any, error) {
		return o.sandbox.IsHealthy(ctx), nil
	},
	"sandbox.metrics": func(ctx context.Context, o *operations, _ args) (any, error) {
		return formed(func(m *Metrics) any { return metricsForm(*m) })(o.sandbox.GetMetrics(ctx))
	},
	"metrics.watch": watchMetrics,
	"sandbox.diagnostic_logs": func(ctx context.Context, o *operations, a args) (any, error) {
		return formed(diagnosticForm)(o.sandbox.Lifecycle().GetDiagnosticLogs(ctx, o.sandbox.ID(),
			a.text("scope")))
	},
	"sandbox.diagnostic_events": func(ctx context.Context, o *operations, a args) (any, error) {
		return formed(diagnosticForm)(o.sandbox.Lifecycle().GetDiagnosticEvents(ctx, o.sandbox.ID(),
			a.text("scope")))
	},
	"sandbox.snapshot": func(ctx context.Context, o *operations, a args) (any, error) {
		return formed(snapshotForm)(o.sandbox.CreateSnapshot(ctx,
			CreateSnapshotRequest{Name: a.text("name"), Memory: a.truth("memory")}))
	},
	"sandbox.fork": func(ctx context.Context, o *operations, a args) (any, error) {
		req := ForkRequest{Count: int64(a.number("count")), Timeout: a.pointer("timeout_s"),
			Metadata: a.strings("metadata"), Entrypoint: a.list("entrypoint"), Memory: a.truth("memory")}
		a.into("env", &req.Env)
		return formed(each(infoForm))(o.sandbox.Lifecycle().Fork(ctx, o.sandbox.ID(), req))
	},
	"sandbox.rollback": func(ctx context.Context, o *operations, a args) (any, error) {
		return formed(infoForm)(o.sandbox.Lifecycle().Rollback(ctx, o.sandbox.ID(),
			a.text("snapshot_id")))
	},
}

// --- commands and sessions ---

func runRequest(a args) RunCommandRequest {
	return RunCommandRequest{Command: a.text("command"), Argv: a.list("argv"), Cwd: a.text("cwd"),
		Background: a.truth("background"), Timeout: int64(a.number("timeout_ms")),
		UID: a.pointer("uid"), GID: a.pointer("gid"), Envs: a.strings("envs"), Stdin: a.text("stdin")}
}

func handled(ctx context.Context, o *operations, a args) (any, error) {
	seen := [][2]any{}
	add := func(kind string, text any) error {
		seen = append(seen, [2]any{kind, text})
		return nil
	}
	_, err := o.sandbox.RunCommandWithOpts(ctx, runRequest(a), &ExecutionHandlers{
		OnInit:     func(e ExecutionInit) error { return add("init", e.ID) },
		OnStdout:   func(m OutputMessage) error { return add("stdout", m.Text) },
		OnStderr:   func(m OutputMessage) error { return add("stderr", m.Text) },
		OnResult:   func(r ExecutionResult) error { return add("result", r.Text()) },
		OnError:    func(e ExecutionError) error { return add("error", e.Value) },
		OnComplete: func(ExecutionComplete) error { return add("complete", nil) },
	})
	return seen, err
}

func iterated(ctx context.Context, o *operations, a args) (any, error) {
	seen := [][2]any{}
	for event, err := range o.sandbox.Events(ctx, runRequest(a)) {
		if err != nil {
			return nil, err
		}
		seen = append(seen, [2]any{event.Type, optional(event.Text)})
	}
	return seen, nil
}

func statusForm(s *CommandStatus) any {
	return args{"id": s.ID, "content": s.Content, "running": s.Running, "exit_code": s.ExitCode,
		"error": optional(s.Error), "started_at": instant(s.StartedAt),
		"finished_at": maybe(s.FinishedAt)}
}

func logsForm(l *CommandLogsResponse) any { return args{"content": l.Output, "cursor": l.Cursor} }

func backgroundUntilEnd(ctx context.Context, o *operations, a args) (any, error) {
	run, err := o.sandbox.RunCommandWithOpts(ctx, RunCommandRequest{Command: a.text("command"),
		Background: true}, nil)
	if err != nil {
		return nil, err
	}
	for {
		status, err := o.sandbox.GetCommandStatus(ctx, run.ID)
		if err != nil {
			return nil, err
		}
		if status.Running {
			continue
		}
		logs, err := o.sandbox.GetCommandLogs(ctx, run.ID, nil)
		if err != nil {
			return nil, err
		}
		return args{"content": logs.Output, "exit_code": status.ExitCode, "running": false}, nil
	}
}

func sessionOfRuns(ctx context.Context, o *operations, a args) (any, error) {
	id, err := o.sandbox.CreateSessionIn(ctx, a.text("cwd"))
	if err != nil {
		return nil, err
	}
	runs := []any{}
	for _, command := range a.list("commands") {
		run, err := o.sandbox.RunInSession(ctx, id, RunInSessionRequest{Command: command}, nil)
		if err != nil {
			return nil, err
		}
		runs = append(runs, executionForm(run))
	}
	return runs, o.sandbox.DeleteSession(ctx, id)
}

var commandOperations = map[string]operation{
	"command.run": func(ctx context.Context, o *operations, a args) (any, error) {
		return formed(executionForm)(o.sandbox.RunCommandWithOpts(ctx, runRequest(a),
			&ExecutionHandlers{SkipAccumulation: a.truth("skip_accumulation")}))
	},
	"command.handlers": handled,
	"command.iterate":  iterated,
	"command.status": func(ctx context.Context, o *operations, a args) (any, error) {
		return formed(statusForm)(o.sandbox.GetCommandStatus(ctx, a.text("id")))
	},
	"command.logs": func(ctx context.Context, o *operations, a args) (any, error) {
		return formed(logsForm)(o.sandbox.GetCommandLogs(ctx, a.text("id"), a.pointer("cursor")))
	},
	"command.interrupt": func(ctx context.Context, o *operations, a args) (any, error) {
		return nothing(o.sandbox.InterruptCommand(ctx, a.text("id")))
	},
	"command.stdin": func(ctx context.Context, o *operations, a args) (any, error) {
		return nothing(o.sandbox.WriteCommandInput(ctx, a.text("id"), strings.NewReader(a.text("data")),
			a.truth("eof")))
	},
	"command.background_until_end": backgroundUntilEnd,
	"session.create": func(ctx context.Context, o *operations, a args) (any, error) {
		return o.sandbox.CreateSessionIn(ctx, a.text("cwd"))
	},
	"session.run": func(ctx context.Context, o *operations, a args) (any, error) {
		return formed(executionForm)(o.sandbox.RunInSession(ctx, a.text("id"), RunInSessionRequest{
			Command: a.text("command"), Cwd: a.text("cwd"), Timeout: int64(a.number("timeout_ms"))}, nil))
	},
	"session.delete": func(ctx context.Context, o *operations, a args) (any, error) {
		return nothing(o.sandbox.DeleteSession(ctx, a.text("id")))
	},
	"session.create_and_run": sessionOfRuns,
}

// --- files ---

// files is the client of file calls: that of a user when the case names one.
func (o *operations) files(a args) *ExecdClient {
	if uid := a.pointer("uid"); uid != nil {
		return o.sandbox.Execd().As(int(*uid), a.number("gid"))
	}
	return o.sandbox.Execd()
}

func (o *operations) download(ctx context.Context, a args, use func(io.Reader) (any, error),
) (any, error) {
	body, err := o.files(a).DownloadFile(ctx, a.text("path"), a.text("range"),
		DownloadFileOptions{Offset: a.number("offset"), Limit: a.number("limit")})
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return use(body)
}

func upload(rows ...args) []UploadFileEntry {
	entries := []UploadFileEntry{}
	for _, a := range rows {
		entries = append(entries, UploadFileEntry{File: strings.NewReader(a.text("text")),
			Options: UploadFileOptions{Metadata: FileMetadata{Path: a.text("path"),
				Mode: int64(a.number("mode")), Owner: a.text("owner"), Group: a.text("group")}}})
	}
	return entries
}

func permissions(a args) PermissionsRequest {
	req := PermissionsRequest{}
	for _, row := range a.rows("entries") {
		req[row.text("path")] = PermissionEntry{Mode: int64(row.number("mode")),
			Owner: row.text("owner"), Group: row.text("group")}
	}
	return req
}

func replacements(a args) ReplaceRequest {
	req := ReplaceRequest{}
	for _, row := range a.rows("entries") {
		req[row.text("path")] = ReplaceEntry{Old: row.text("old"), New: row.text("new")}
	}
	return req
}

func replaceCounted(ctx context.Context, o *operations, a args) (any, error) {
	counts, err := o.files(a).ReplaceInFilesDetailed(ctx, replacements(a))
	rows := []any{}
	for path, count := range counts {
		rows = append(rows, args{"path": path, "replaced_count": count})
	}
	return rows, err
}

func watchFiles(ctx context.Context, o *operations, a args) (any, error) {
	seen := []any{}
	err := o.files(a).WatchDirectory(ctx, a.text("path"), a.truth("recursive"), func(e WatchEvent) error {
		if e.Type == "init" {
			return nil
		}
		seen = append(seen, args{"type": e.Type, "path": e.Path, "from": optional(e.From),
			"directory": e.Directory})
		if len(seen) == a.number("count") {
			return errEnough
		}
		return nil
	})
	if err == errEnough {
		err = nil
	}
	return seen, err
}

func fileInfos(ctx context.Context, o *operations, a args) (any, error) {
	infos, err := o.files(a).GetFileInfo(ctx, a.list("paths")...)
	forms := args{}
	for path, info := range infos {
		forms[path] = fileForm(&info)
	}
	return forms, err
}

func deleteDirectories(ctx context.Context, o *operations, a args) (any, error) {
	for _, path := range a.list("paths") {
		if err := o.files(a).DeleteDirectory(ctx, path); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

var fileOperations = map[string]operation{
	"files.read": func(ctx context.Context, o *operations, a args) (any, error) {
		return o.download(ctx, a, func(r io.Reader) (any, error) {
			text, err := io.ReadAll(r)
			return string(text), err
		})
	},
	"files.read_bytes": func(ctx context.Context, o *operations, a args) (any, error) {
		return o.download(ctx, a, func(r io.Reader) (any, error) {
			data, err := io.ReadAll(r)
			return hex.EncodeToString(data), err
		})
	},
	"files.read_stream": func(ctx context.Context, o *operations, a args) (any, error) {
		return o.download(ctx, a, func(r io.Reader) (any, error) { return io.Copy(io.Discard, r) })
	},
	"files.write": func(ctx context.Context, o *operations, a args) (any, error) {
		return nothing(o.files(a).UploadFiles(ctx, upload(a)))
	},
	"files.write_many": func(ctx context.Context, o *operations, a args) (any, error) {
		return nothing(o.files(a).UploadFiles(ctx, upload(a.rows("entries")...)))
	},
	"files.write_stream": func(ctx context.Context, o *operations, a args) (any, error) {
		a["text"] = strings.Repeat(a.text("text"), a.number("times"))
		return nothing(o.files(a).UploadFiles(ctx, upload(a)))
	},
	"files.info": fileInfos,
	"files.search": func(ctx context.Context, o *operations, a args) (any, error) {
		return formed(each(fileForm))(o.files(a).SearchFiles(ctx, a.text("path"), a.text("pattern")))
	},
	"files.list": func(ctx context.Context, o *operations, a args) (any, error) {
		return formed(each(fileForm))(o.files(a).ListDirectory(ctx, a.text("path"), a.number("depth")))
	},
	"files.delete": func(ctx context.Context, o *operations, a args) (any, error) {
		return nothing(o.files(a).DeleteFiles(ctx, a.list("paths")...))
	},
	"files.delete_directories": deleteDirectories,
	"files.make_directories": func(ctx context.Context, o *operations, a args) (any, error) {
		return nothing(o.files(a).CreateDirectories(ctx, permissions(a)))
	},
	"files.permissions": func(ctx context.Context, o *operations, a args) (any, error) {
		return nothing(o.files(a).SetPermissions(ctx, permissions(a)))
	},
	"files.move": func(ctx context.Context, o *operations, a args) (any, error) {
		var moves MoveRequest
		a.into("entries", &moves)
		return nothing(o.files(a).MoveFiles(ctx, moves))
	},
	"files.replace": func(ctx context.Context, o *operations, a args) (any, error) {
		return nothing(o.files(a).ReplaceInFiles(ctx, replacements(a)))
	},
	"files.replace_detailed": replaceCounted,
	"files.watch":            watchFiles,
}

// --- code ---

func contextForm(c *CodeContext) any { return args{"id": c.ID, "language": c.Language} }

func runCode(ctx context.Context, o *operations, a args) (any, error) {
	var within args
	a.into("context", &within)
	language := a.text("language")
	if within != nil {
		if language != "" {
			return nil, absent("a run has one language argument, which cannot disagree with itself")
		}
		language = within.text("language")
	}
	return formed(executionForm)((&CodeInterpreter{o.sandbox}).ExecuteInContext(ctx,
		within.text("id"), language, a.text("code"), nil))
}

var codeOperations = map[string]operation{
	"code.run": runCode,
	"code.create_context": func(ctx context.Context, o *operations, a args) (any, error) {
		return formed(contextForm)(o.sandbox.CreateContext(ctx,
			CreateContextRequest{Language: a.text("language")}))
	},
	"code.get_context": func(ctx context.Context, o *operations, a args) (any, error) {
		return formed(contextForm)(o.sandbox.Execd().GetContext(ctx, a.text("id")))
	},
	"code.list_contexts": func(ctx context.Context, o *operations, a args) (any, error) {
		return formed(each(contextForm))(o.sandbox.ListContexts(ctx, a.text("language")))
	},
	"code.delete_context": func(ctx context.Context, o *operations, a args) (any, error) {
		return nothing(o.sandbox.DeleteContext(ctx, a.text("id")))
	},
	"code.delete_contexts": func(ctx context.Context, o *operations, a args) (any, error) {
		return nothing(o.sandbox.Execd().DeleteContextsByLanguage(ctx, a.text("language")))
	},
	"code.interrupt": func(ctx context.Context, o *operations, a args) (any, error) {
		return nothing(o.sandbox.Execd().InterruptCode(ctx, a.text("id")))
	},
}

// --- egress and vault ---

func policyForm(p *PolicyStatusResponse) any {
	rules := []any{}
	for _, rule := range p.Policy.Egress {
		rules = append(rules, args{"action": rule.Action, "target": rule.Target})
	}
	return args{"default_action": p.Policy.DefaultAction, "egress": rules}
}

func credentials(rows []args) []Credential {
	var list []Credential
	for _, row := range rows {
		list = append(list, Credential{Name: row.text("name"),
			Source: CredentialSource{Type: "inline", Value: row.text("value")}})
	}
	return list
}

func credentialForm(c *CredentialMetadata) any {
	return args{"name": c.Name, "source_type": c.SourceType, "revision": c.Revision}
}

func bindingForm(b *CredentialBindingMetadata) any {
	return args{"name": b.Name, "revision": b.Revision}
}

func vaultForm(v *CredentialVaultState) any {
	return args{"revision": v.Revision, "credentials": each(credentialForm)(v.Credentials),
		"bindings": each(bindingForm)(v.Bindings)}
}

func patchVault(ctx context.Context, o *operations, a args) (any, error) {
	req := CredentialVaultPatchRequest{ExpectedRevision: a.pointer("expected_revision")}
	var secrets, bindings args
	if a.into("credentials", &secrets); secrets != nil {
		req.Credentials = &CredentialMutationSet{Add: credentials(secrets.rows("add")),
			Replace: credentials(secrets.rows("replace")), Delete: secrets.list("delete")}
	}
	if a.into("bindings", &bindings); bindings != nil {
		req.Bindings = &CredentialBindingMutationSet{Add: bindings.bindings("add"),
			Replace: bindings.bindings("replace"), Delete: bindings.list("delete")}
	}
	return formed(vaultForm)(o.sandbox.PatchCredentialVault(ctx, req))
}

var egressOperations = map[string]operation{
	"egress.get": func(ctx context.Context, o *operations, _ args) (any, error) {
		return formed(policyForm)(o.sandbox.GetEgressPolicy(ctx))
	},
	"egress.patch": func(ctx context.Context, o *operations, a args) (any, error) {
		_, err := o.sandbox.PatchEgressRules(ctx, a.rules("rules"))
		return nil, err
	},
	"egress.delete": func(ctx context.Context, o *operations, a args) (any, error) {
		_, err := o.sandbox.DeleteEgressRules(ctx, a.list("targets"))
		return nil, err
	},
	"vault.create": func(ctx context.Context, o *operations, a args) (any, error) {
		return formed(vaultForm)(o.sandbox.CreateCredentialVault(ctx, CredentialVaultCreateRequest{
			Credentials: credentials(a.rows("credentials")), Bindings: a.bindings("bindings")}))
	},
	"vault.get": func(ctx context.Context, o *operations, _ args) (any, error) {
		return formed(vaultForm)(o.sandbox.GetCredentialVault(ctx))
	},
	"vault.patch": patchVault,
	"vault.delete": func(ctx context.Context, o *operations, _ args) (any, error) {
		return nothing(o.sandbox.DeleteCredentialVault(ctx))
	},
	"vault.list_credentials": func(ctx context.Context, o *operations, _ args) (any, error) {
		return formed(each(credentialForm))(o.sandbox.ListCredentialVaultCredentials(ctx))
	},
	"vault.get_credential": func(ctx context.Context, o *operations, a args) (any, error) {
		return formed(credentialForm)(o.sandbox.GetCredentialVaultCredential(ctx, a.text("name")))
	},
	"vault.list_bindings": func(ctx context.Context, o *operations, _ args) (any, error) {
		return formed(each(bindingForm))(o.sandbox.ListCredentialVaultBindings(ctx))
	},
	"vault.get_binding": func(ctx context.Context, o *operations, a args) (any, error) {
		return formed(bindingForm)(o.sandbox.GetCredentialVaultBinding(ctx, a.text("name")))
	},
}

// --- manager, snapshots, images, pools, volumes ---

func listOptions(a args) (ListOptions, error) {
	for _, name := range []string{"page", "page_size"} {
		if number := a.pointer(name); number != nil && *number == 0 {
			return ListOptions{}, absent("a page or a page size of 0 is the default")
		}
	}
	return ListOptions{States: a.list("states"), Metadata: a.strings("metadata"),
		Page: a.number("page"), PageSize: a.number("page_size")}, nil
}

func listSandboxes(ctx context.Context, o *operations, a args) (any, error) {
	opts, err := listOptions(a)
	if err != nil {
		return nil, err
	}
	page, err := o.manager().ListSandboxInfos(ctx, opts)
	if err != nil {
		return nil, err
	}
	return pageForm(each(infoForm)(page.Items), page.Pagination), nil
}

func iterateSandboxes(ctx context.Context, o *operations, a args) (any, error) {
	opts, err := listOptions(a)
	ids := []string{}
	if err != nil {
		return nil, err
	}
	for info, err := range o.manager().Sandboxes(ctx, opts) {
		if err != nil {
			return nil, err
		}
		ids = append(ids, info.ID)
	}
	return ids, nil
}

func snapshotRoundTrip(ctx context.Context, o *operations, a args) (any, error) {
	made, err := o.sandbox.CreateSnapshot(ctx, CreateSnapshotRequest{Name: a.text("name")})
	if err != nil {
		return nil, err
	}
	ready, err := o.sandbox.Lifecycle().WaitForSnapshot(ctx, made.ID)
	if err != nil {
		return nil, err
	}
	restored, err := CreateSandbox(ctx, o.config(), SandboxCreateOptions{SnapshotID: made.ID})
	if err != nil {
		return nil, err
	}
	defer restored.Close()
	body, err := restored.DownloadFile(ctx, "/root/kept", "")
	if err != nil {
		return nil, err
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	return args{"state": ready.Status.State, "restored": string(text)},
		firstError(err, restored.Kill(ctx), o.manager().DeleteSnapshot(ctx, made.ID))
}

func listSnapshots(ctx context.Context, o *operations, a args) (any, error) {
	page, err := o.manager().ListSnapshots(ctx, ListSnapshotsOptions{SandboxID: a.text("sandbox_id"),
		States: a.list("states"), Page: a.number("page"), PageSize: a.number("page_size")})
	if err != nil {
		return nil, err
	}
	return pageForm(each(snapshotForm)(page.Items), page.Pagination), nil
}

var managerOperations = map[string]operation{
	"manager.list":    listSandboxes,
	"manager.iterate": iterateSandboxes,
	"manager.get": func(ctx context.Context, o *operations, a args) (any, error) {
		return formed(infoForm)(o.manager().GetSandboxInfo(ctx, a.text("id")))
	},
	"manager.kill": func(ctx context.Context, o *operations, a args) (any, error) {
		return nothing(o.manager().KillSandbox(ctx, a.text("id")))
	},
	"manager.pause": func(ctx context.Context, o *operations, a args) (any, error) {
		return nothing(o.manager().PauseSandbox(ctx, a.text("id")))
	},
	"manager.resume": func(ctx context.Context, o *operations, a args) (any, error) {
		return nothing(o.manager().ResumeSandbox(ctx, a.text("id")))
	},
	"manager.renew": func(ctx context.Context, o *operations, a args) (any, error) {
		return formed(renewalForm)(o.manager().RenewSandbox(ctx, a.text("id"), a.millis("seconds")*1000))
	},
	"manager.patch_metadata": func(ctx context.Context, o *operations, a args) (any, error) {
		return formed(infoForm)(o.manager().PatchSandboxMetadata(ctx, a.text("id"), a.patch()))
	},
	"snapshots.create": func(ctx context.Context, o *operations, a args) (any, error) {
		return formed(snapshotForm)(o.manager().CreateSnapshot(ctx, a.text("sandbox_id"),
			CreateSnapshotRequest{Name: a.text("name"), Memory: a.truth("memory")}))
	},
	"snapshots.get": func(ctx context.Context, o *operations, a args) (any, error) {
		return formed(snapshotForm)(o.manager().GetSnapshot(ctx, a.text("id")))
	},
	"snapshots.list": listSnapshots,
	"snapshots.delete": func(ctx context.Context, o *operations, a args) (any, error) {
		return nothing(o.manager().DeleteSnapshot(ctx, a.text("id")))
	},
	"snapshots.wait": func(ctx context.Context, o *operations, a args) (any, error) {
		return formed(snapshotForm)(o.manager().WaitForSnapshot(ctx, a.text("id")))
	},
	"snapshots.round_trip": snapshotRoundTrip,
}

func imageForm(i *StoredImage) any {
	return args{"id": i.ID, "names": i.Names, "size": i.Size, "in_use": i.InUse}
}

func poolForm(p *Pool) any {
	return args{"name": p.Name, "total": p.Status.Total, "allocated": p.Status.Allocated,
		"available": p.Status.Available}
}

func volumeForm(v *NamedVolume) any {
	return args{"name": v.Name, "size_bytes": v.SizeBytes, "used_by": v.UsedBy}
}

func capacity(a args) CapacitySpec {
	var c args
	a.into("capacity", &c)
	return CapacitySpec{BufferMin: int64(c.number("buffer_min")), BufferMax: int64(c.number("buffer_max")),
		PoolMin: int64(c.number("pool_min")), PoolMax: int64(c.number("pool_max"))}
}

func listImages(ctx context.Context, o *operations, a args) (any, error) {
	page, err := o.manager().ListImages(ctx, a.number("page"), a.number("page_size"))
	if err != nil {
		return nil, err
	}
	return pageForm(each(imageForm)(page.Items), page.Pagination), nil
}

var serverOperations = map[string]operation{
	"images.list": listImages,
	"images.get": func(ctx context.Context, o *operations, a args) (any, error) {
		return formed(imageForm)(o.manager().GetImage(ctx, a.text("name")))
	},
	"images.delete": func(ctx context.Context, o *operations, a args) (any, error) {
		return nothing(o.manager().DeleteImage(ctx, a.text("name")))
	},
	"images.pull": func(ctx context.Context, o *operations, a args) (any, error) {
		return formed(imageForm)(o.manager().PullImage(ctx, PullImageRequest{
			Image: PullImage{URI: a.text("uri")}, Policy: a.text("policy")}, nil))
	},
	"pools.create": func(ctx context.Context, o *operations, a args) (any, error) {
		return formed(poolForm)(o.manager().CreatePool(ctx, CreatePoolRequest{Name: a.text("name"),
			Template: a["template"], CapacitySpec: capacity(a)}))
	},
	"pools.get": func(ctx context.Context, o *operations, a args) (any, error) {
		return formed(poolForm)(o.manager().GetPool(ctx, a.text("name")))
	},
	"pools.list": func(ctx context.Context, o *operations, _ args) (any, error) {
		return formed(each(poolForm))(o.manager().ListPools(ctx))
	},
	"pools.update": func(ctx context.Context, o *operations, a args) (any, error) {
		return formed(poolForm)(o.manager().UpdatePool(ctx, a.text("name"),
			UpdatePoolRequest{CapacitySpec: capacity(a)}))
	},
	"pools.delete": func(ctx context.Context, o *operations, a args) (any, error) {
		return nothing(o.manager().DeletePool(ctx, a.text("name")))
	},
	"volumes.create": func(ctx context.Context, o *operations, a args) (any, error) {
		return formed(volumeForm)(o.manager().CreateVolume(ctx,
			CreateVolumeRequest{Name: a.text("name"), Size: a.text("size")}))
	},
	"volumes.get": func(ctx context.Context, o *operations, a args) (any, error) {
		return formed(volumeForm)(o.manager().GetVolume(ctx, a.text("name")))
	},
	"volumes.delete": func(ctx context.Context, o *operations, a args) (any, error) {
		return nothing(o.manager().DeleteVolume(ctx, a.text("name")))
	},
}

// --- isolated sessions ---

func isolatedRun(a args) IsolatedRunRequest {
	return IsolatedRunRequest{Code: a.text("code"), Cwd: a.text("cwd"), Envs: a.strings("envs"),
		TimeoutSeconds: a.pointer("timeout_s")}
}

var isolatedOperations = map[string]operation{
	"isolated.create": func(ctx context.Context, o *operations, a args) (any, error) {
		session, err := o.sandbox.Execd().CreateIsolatedSession(ctx, CreateIsolatedSessionRequest{
			Workspace: &IsolatedWorkspace{Path: a.text("path"), Mode: a.text("mode")}})
		if err != nil {
			return nil, err
		}
		o.isolated = session
		return args{"id": session.ID()}, nil
	},
	"isolated.run": func(ctx context.Context, o *operations, a args) (any, error) {
		return formed(executionForm)(o.isolated.Run(ctx, isolatedRun(a), nil))
	},
	"isolated.run_background": func(ctx context.Context, o *operations, a args) (any, error) {
		return formed(func(run *IsolatedBackgroundRun) any {
			return args{"run_id": run.RunID}
		})(o.isolated.RunBackground(ctx, isolatedRun(a)))
	},
	"isolated.run_status": func(ctx context.Context, o *operations, a args) (any, error) {
		return formed(func(s *IsolatedRunStatus) any {
			return args{"run_id": s.RunID, "running": s.Running, "exit_code": s.ExitCode,
				"finished_at": maybe(s.FinishedAt)}
		})(o.isolated.GetRunStatus(ctx, a.text("run_id")))
	},
	"isolated.run_logs": func(ctx context.Context, o *operations, a args) (any, error) {
		return formed(func(logs *CommandLogsResponse) any {
			return args{"content": logs.Output, "cursor": logs.Cursor}
		})(o.isolated.GetRunLogs(ctx, a.text("run_id"), a.pointer("cursor")))
	},
	"isolated.diff": func(ctx context.Context, o *operations, _ args) (any, error) {
		body, err := o.isolated.Diff(ctx)
		if err != nil {
			return nil, err
		}
		defer body.Close()
		archive, err := io.ReadAll(body)
		return hex.EncodeToString(archive), err
	},
	"isolated.commit": func(ctx context.Context, o *operations, a args) (any, error) {
		return o.isolated.Commit(ctx, CommitIsolatedRequest{ResetUpperAfter: a.truth("reset")})
	},
	"isolated.delete": func(ctx context.Context, o *operations, _ args) (any, error) {
		return nothing(o.isolated.Delete(ctx))
	},
}

// --- events ---

func eventForm(e LifecycleEvent) any {
	return args{"id": optional(e.ID), "type": e.Type, "time": instant(e.Time),
		"tenant": optional(e.Tenant), "sandbox_id": optional(e.SandboxID), "state": optional(e.State),
		"reason": optional(e.Reason), "message": optional(e.Message)}
}

var eventOperations = map[string]operation{
	"events.watch": func(ctx context.Context, o *operations, a args) (any, error) {
		seen := []any{}
		opts := WatchEventsOptions{SandboxID: a.text("sandbox_id"), After: a.text("after")}
		for e, err := range o.manager().Events(ctx, opts) {
			if err != nil {
				return nil, err
			}
			if seen = append(seen, eventForm(e)); len(seen) == a.number("count") {
				break
			}
		}
		return seen, nil
	},
	"events.watch_a_pause": func(ctx context.Context, o *operations, _ args) (any, error) {
		opts := WatchEventsOptions{SandboxID: o.sandbox.ID(), After: "0-1"}
		for e, err := range o.manager().Events(ctx, opts) {
			if err == nil && e.Type == EventReset {
				err = o.sandbox.Pause(ctx)
			}
			if err != nil {
				return nil, err
			}
			if e.Type == "sandbox.paused" {
				return args{"type": e.Type, "state": e.State, "mine": e.SandboxID == o.sandbox.ID()}, nil
			}
		}
		return nil, nil
	},
}
