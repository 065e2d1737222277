using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Text;
using System.Text.Json;
using System.Threading.Tasks;
using OpenSandbox.CodeInterpreter.Models;
using OpenSandbox.Config;
using OpenSandbox.Core;
using OpenSandbox.Models;
using OpenSandbox.Services;

namespace OpenSandbox.Tests
{
    /// <summary>The operations of sdks/conformance/README.md: calls the SDK, returns neutral values.</summary>
    internal sealed class Operations : IAsyncDisposable
    {
        private readonly JsonElement _settings;
        private ConnectionConfig? _config;
        private Sandbox? _sandbox;
        private SandboxManager? _manager;
        private OpenSandbox.CodeInterpreter.CodeInterpreter? _code;
        private IIsolatedSession? _isolated;
        private Args _with = new Args(default);

        internal Operations(JsonElement settings) => _settings = settings;

        public async ValueTask DisposeAsync()
        {
            if (_sandbox != null)
                await _sandbox.DisposeAsync();
            _config?.Dispose();
        }

        private ConnectionConfig Config => _config ??= MakeConfig();
        private Sandbox Current => _sandbox ?? throw new Exception("there is no sandbox");
        private SandboxManager Manager => _manager ??= SandboxManager.Create(
            new SandboxManagerOptions { ConnectionConfig = Config });

        private ConnectionConfig MakeConfig()
        {
            var a = new Args(_settings);
            var options = new ConnectionConfigOptions
            {
                Domain = a.Text("domain"), ApiKey = a.Text("api_key"), Headers = a.Map("headers"),
                UseServerProxy = a.Truth("use_server_proxy") ?? false,
                RequestTimeout = a.Millis("request_timeout_ms"),
            };
            if (a.Text("protocol") is string name)
                options.Protocol = Enum.TryParse<ConnectionProtocol>(name, true, out var protocol)
                    ? protocol : throw new InvalidArgumentException("no such protocol");
            if (a.Get("retry") is JsonElement retry)
            {
                options.MaxRetries = retry.GetProperty("max").GetInt32();
                if (retry.TryGetProperty("backoff_ms", out var pause))
                    options.RetryBackoff = TimeSpan.FromMilliseconds(pause.GetInt32());
            }
            return new ConnectionConfig(options);
        }

        internal async Task<object> StepAsync(JsonElement step)
        {
            _with = new Args(step.TryGetProperty("with", out var with) ? with : default);
            var name = step.GetProperty("do").GetString()!;
            try
            {
                return new { result = await DoAsync(name) };
            }
            catch (SandboxException e)
            {
                return new { error = Neutral(e) };
            }
        }

        private static object Neutral(SandboxException e) => new
        {
            @class = e switch
            {
                SandboxApiException _ => "api",
                InvalidArgumentException _ => "invalid_argument",
                SandboxReadyTimeoutException _ => "ready_timeout",
                SandboxUnhealthyException _ => "unhealthy",
                _ => "internal",
            },
            code = e.Error.Code,
            message = e.Message,
            status = (e as SandboxApiException)?.StatusCode,
            request_id = e.RequestId,
            retry_after_s = (e as SandboxApiException)?.RetryAfter?.TotalSeconds,
        };

        private Task<object?> DoAsync(string name)
        {
            switch (name.Substring(0, name.IndexOf('.')))
            {
                case "config": return Task.FromResult<object?>(new
                {
                    base_url = Config.GetBaseUrl(), api_key = Config.ApiKey ?? "", protocol = Config.Scheme,
                });
                case "sandbox": return SandboxAsync(name);
                case "metrics": return WatchMetricsAsync();
                case "command": return CommandAsync(name);
                case "session": return SessionAsync(name);
                case "files": return FilesAsync(name);
                case "code": return CodeAsync(name);
                case "egress": return EgressAsync(name);
                case "vault": return VaultAsync(name);
                case "manager": return ManagerAsync(name);
                case "snapshots": return SnapshotsAsync(name);
                case "isolated": return IsolatedAsync(name);
                case "events": return EventsAsync(name);
                default: return ServerAsync(name);
            }
        }

        private static async Task<object?> Null(Task task)
        {
            await task;
            return null;
        }

        // --- sandboxes ---

        private async Task<object?> SandboxAsync(string name)
        {
            switch (name)
            {
                case "sandbox.create":
                    _sandbox = await Sandbox.CreateAsync(CreateOptions());
                    return new { id = _sandbox.Id };
                case "sandbox.connect":
                    _sandbox = await Sandbox.ConnectAsync(ConnectOptions());
                    return new { id = _sandbox.Id };
                case "sandbox.resume":
                    _sandbox = await Sandbox.ResumeAsync(ConnectOptions());
                    return new { id = _sandbox.Id };
                case "sandbox.info": return Info(await Current.GetInfoAsync());
                case "sandbox.renew":
                    return new { expires_at = Time((await Current.RenewAsync(_with.Int("seconds")!.Value)).ExpiresAt) };
                case "sandbox.pause": return await Null(Current.PauseAsync());
                case "sandbox.kill": return await Null(Current.KillAsync());
                case "sandbox.close": await Current.DisposeAsync(); return null;
                case "sandbox.patch_metadata": return Info(await Current.PatchMetadataAsync(Patch()));
                case "sandbox.endpoint": return Endpoint(await Current.GetEndpointAsync(_with.Int("port")!.Value));
                case "sandbox.signed_endpoint":
                    return Endpoint(await Current.GetSignedEndpointAsync(_with.Int("port")!.Value,
                                                                         _with.Int("expires")!.Value));
                case "sandbox.is_healthy": return await Current.IsHealthyAsync();
                case "sandbox.metrics": return Figures(await Current.GetMetricsAsync());
                case "sandbox.diagnostic_logs":
                    return Diagnostics(await Current.Sandboxes.GetDiagnosticLogsAsync(Current.Id, _with.Text("scope")!));
                case "sandbox.diagnostic_events":
                    return Diagnostics(await Current.Sandboxes.GetDiagnosticEventsAsync(Current.Id, _with.Text("scope")!));
                case "sandbox.snapshot": return Snapshot(await (_with.Truth("memory") == true
                    ? Current.CreateMemorySnapshotAsync(_with.Text("name"))
                    : Current.CreateSnapshotAsync(_with.Text("name"))));
                case "sandbox.fork":
                    return (await Current.Sandboxes.ForkSandboxAsync(Current.Id, new ForkRequest
                    {
                        Count = _with.Int("count"), Timeout = _with.Int("timeout_s"), Env = _with.Map("env"),
                        Metadata = _with.Map("metadata"), Entrypoint = _with.List("entrypoint"),
                        Memory = _with.Truth("memory"),
                    })).Select(Info).ToList();
                case "sandbox.rollback": return Info(await Current.RollbackAsync(_with.Text("snapshot_id")!));
                default: throw new NotSupportedException(name);
            }
        }

        private SandboxCreateOptions CreateOptions()
        {
            var o = new SandboxCreateOptions
            {
                ConnectionConfig = Config, Image = _with.Text("image"), SnapshotId = _with.Text("snapshot_id"),
                Entrypoint = _with.List("entrypoint"), Resource = _with.Map("resource"), Env = _with.Map("env"),
                Metadata = _with.Map("metadata"), Extensions = _with.Map("extensions"),
                IdempotencyKey = _with.Text("idempotency_key"),
                SecureAccess = _with.Truth("secure_access") ?? false, TimeoutSeconds = _with.Int("timeout_s"),
                ManualCleanup = _with.IsNull("timeout_s"), Volumes = Volumes(),
            };
            Ready(o, "ready_timeout_ms");
            if (_with.Get("image_auth") is JsonElement auth)
                o.ImageAuth = Read<ImageAuth>(auth);
            if (_with.Get("platform") is JsonElement platform)
                o.Platform = Read<PlatformSpec>(platform);
            if (_with.Get("network_policy") is JsonElement policy)
                o.NetworkPolicy = new NetworkPolicy
                {
                    DefaultAction = ActionOf(policy.GetProperty("default_action")),
                    Egress = Rules(policy.GetProperty("egress")),
                };
            if (_with.Get("secret_env") is JsonElement secrets)
                o.SecretEnv = Read<Dictionary<string, Secret>>(secrets);
            if (_with.Truth("credential_proxy") is bool enabled)
                o.CredentialProxy = new CredentialProxyConfig { Enabled = enabled };
            return o;
        }

        private List<Volume>? Volumes()
        {
            if (!(_with.Get("volumes") is JsonElement list))
                return null;
            return list.EnumerateArray().Select(v =>
            {
                var a = new Args(v);
                var volume = new Volume
                {
                    Name = a.Text("name")!, MountPath = a.Text("mount_path")!, SubPath = a.Text("sub_path"),
                    ReadOnly = a.Truth("read_only"),
                };
                if (a.Get("host") is JsonElement host)
                    volume.Host = new Host { Path = new Args(host).Text("path")! };
                if (a.Get("pvc") is JsonElement pvc)
                    volume.PVC = new PVC { ClaimName = new Args(pvc).Text("claim_name")! };
                if (a.Get("ossfs") is JsonElement oss)
                {
                    var o = new Args(oss);
                    volume.OSSFS = new OSSFS
                    {
                        Bucket = o.Text("bucket")!, Endpoint = o.Text("endpoint")!,
                        AccessKeyId = o.Text("access_key_id")!, AccessKeySecret = o.Text("access_key_secret")!,
                    };
                }
                return volume;
            }).ToList();
        }

        private SandboxConnectOptions ConnectOptions()
        {
            var o = new SandboxConnectOptions { ConnectionConfig = Config, SandboxId = _with.Text("id")! };
            Ready(o, "timeout_ms");
            return o;
        }

        private void Ready(SandboxReadyOptions o, string timeout)
        {
            o.SkipHealthCheck = _with.Truth("skip_health_check") ?? false;
            o.ReadyTimeout = _with.Millis(timeout);
            o.HealthCheckPollingInterval = _with.Int("poll_ms");
        }

        private SandboxMetadataPatch Patch()
        {
            var patch = new SandboxMetadataPatch();
            foreach (var pair in _with.Get("patch")!.Value.EnumerateObject())
                patch[pair.Name] = pair.Value.GetString();
            return patch;
        }

        private async Task<object?> WatchMetricsAsync()
        {
            var seen = new List<object>();
            await foreach (var figures in Current.Metrics.WatchMetricsAsync())
            {
                seen.Add(Figures(figures));
                if (seen.Count == _with.Int("count"))
                    break;
            }
            return seen;
        }

        // --- commands ---

        private RunCommandOptions RunOptions() => new RunCommandOptions
        {
            Argv = _with.List("argv"), WorkingDirectory = _with.Text("cwd"), Uid = _with.Int("uid"),
            Gid = _with.Int("gid"), Envs = _with.Map("envs"), Stdin = _with.Text("stdin"),
            Background = _with.Truth("background") ?? false, Timeout = _with.Millis("timeout_ms"),
        };

        private async Task<object?> CommandAsync(string name)
        {
            var commands = Current.Commands;
            var id = _with.Text("id") ?? "";
            switch (name)
            {
                case "command.run":
                    return Execution(await commands.RunAsync(_with.Text("command") ?? "", RunOptions(),
                        new ExecutionHandlers { SkipAccumulation = _with.Truth("skip_accumulation") ?? false }));
                case "command.handlers": return await HandlersAsync();
                case "command.iterate":
                    var events = new List<object?[]>();
                    await foreach (var e in commands.RunStreamAsync(_with.Text("command") ?? "", RunOptions()))
                        events.Add(new object?[] { e.Type, e.Text });
                    return events;
                case "command.status": return Status(await commands.GetCommandStatusAsync(id));
                case "command.logs":
                    var logs = await commands.GetBackgroundCommandLogsAsync(id, _with.Int("cursor"));
                    return new { content = logs.Content, cursor = logs.Cursor };
                case "command.interrupt": return await Null(commands.InterruptAsync(id));
                case "command.stdin":
                    return await Null(commands.WriteInputAsync(id,
                        new MemoryStream(Encoding.UTF8.GetBytes(_with.Text("data")!)), _with.Truth("eof") ?? false));
                case "command.background_until_end": return await BackgroundAsync();
                default: throw new NotSupportedException(name);
            }
        }

        private async Task<object?> HandlersAsync()
        {
            var seen = new List<object?[]>();
            Task Add(string kind, string? text)
            {
                seen.Add(new object?[] { kind, text });
                return Task.CompletedTask;
            }
            await Current.Commands.RunAsync(_with.Text("command") ?? "", RunOptions(), new ExecutionHandlers
            {
                OnInit = e => Add("init", e.Id), OnStdout = e => Add("stdout", e.Text),
                OnStderr = e => Add("stderr", e.Text), OnResult = e => Add("result", e.Text),
                OnError = e => Add("error", e.Value), OnExecutionComplete = e => Add("complete", null),
            });
            return seen;
        }

        private async Task<object?> BackgroundAsync()
        {
            var run = await Current.Commands.RunAsync(_with.Text("command")!,
                                                      new RunCommandOptions { Background = true });
            CommandStatus status;
            do
                status = await Current.Commands.GetCommandStatusAsync(run.Id!);
            while (status.Running == true);
            var logs = await Current.Commands.GetBackgroundCommandLogsAsync(run.Id!, 0);
            return new { content = logs.Content, exit_code = status.ExitCode, running = status.Running };
        }

        private async Task<object?> SessionAsync(string name)
        {
            var commands = Current.Commands;
            switch (name)
            {
                case "session.create":
                    return await commands.CreateSessionAsync(new CreateSessionOptions { WorkingDirectory = _with.Text("cwd") });
                case "session.run":
                    return Execution(await commands.RunInSessionAsync(_with.Text("id")!, _with.Text("command")!,
                        new RunInSessionOptions { WorkingDirectory = _with.Text("cwd"), Timeout = _with.Millis("timeout_ms") }));
                case "session.delete": return await Null(commands.DeleteSessionAsync(_with.Text("id")!));
                case "session.create_and_run":
                    var id = await commands.CreateSessionAsync(new CreateSessionOptions { WorkingDirectory = _with.Text("cwd") });
                    var runs = new List<object>();
                    foreach (var command in _with.List("commands")!)
                        runs.Add(Execution(await commands.RunInSessionAsync(id, command)));
                    await commands.DeleteSessionAsync(id);
                    return runs;
                default: throw new NotSupportedException(name);
            }
        }

        // --- files ---

        private async Task<object?> FilesAsync(string name)
        {
            var files = _with.Int("uid") is int uid ? Current.FilesAs(uid, _with.Int("gid")!.Value) : Current.Files;
            var path = _with.Text("path") ?? "";
            var paths = _with.List("paths") ?? new List<string>();
            var part = new ReadFileOptions { Range = _with.Text("range"), Offset = _with.Int("offset"), Limit = _with.Int("limit") };
            switch (name)
            {
                case "files.read": return await files.ReadFileAsync(path, part);
                case "files.read_bytes":
                    return BitConverter.ToString(await files.ReadBytesAsync(path, part)).Replace("-", "").ToLowerInvariant();
                case "files.read_stream":
                    long bytes = 0;
                    await foreach (var piece in files.ReadBytesStreamAsync(path))
                        bytes += piece.Length;
                    return bytes;
                case "files.write": return await Null(files.WriteFilesAsync(new[] { Write(_with) }));
                case "files.write_many":
                    return await Null(files.WriteFilesAsync(_with.Each("entries").Select(Write)));
                case "files.write_stream":
                    var data = string.Concat(Enumerable.Repeat(_with.Text("text"), _with.Int("times")!.Value));
                    return await Null(files.WriteFilesAsync(new[]
                        { new WriteEntry { Path = path, Data = new MemoryStream(Encoding.UTF8.GetBytes(data)) } }));
                case "files.info":
                    return (await files.GetFileInfoAsync(paths)).ToDictionary(p => p.Key, p => FileInfo(p.Value));
                case "files.search":
                    return (await files.SearchAsync(new SearchEntry { Path = path, Pattern = _with.Text("pattern") })).Select(FileInfo).ToList();
                case "files.list": return (await files.ListDirectoryAsync(path, _with.Int("depth"))).Select(FileInfo).ToList();
                case "files.delete": return await Null(files.DeleteFilesAsync(paths));
                case "files.delete_directories": return await Null(files.DeleteDirectoriesAsync(paths));
                case "files.make_directories":
                    return await Null(files.CreateDirectoriesAsync(_with.Each("entries").Select(e => new CreateDirectoryEntry
                        { Path = e.Text("path")!, Mode = e.Int("mode"), Owner = e.Text("owner"), Group = e.Text("group") })));
                case "files.permissions":
                    return await Null(files.SetPermissionsAsync(_with.Each("entries").Select(e => new SetPermissionEntry
                        { Path = e.Text("path")!, Mode = e.Int("mode")!.Value, Owner = e.Text("owner"), Group = e.Text("group") })));
                case "files.move":
                    return await Null(files.MoveFilesAsync(_with.Each("entries").Select(e => new MoveEntry
                        { Src = e.Text("src")!, Dest = e.Text("dest")! })));
                case "files.replace": return await Null(files.ReplaceContentsAsync(Replacements()));
                case "files.replace_detailed":
                    return (await files.ReplaceContentsDetailedAsync(Replacements()))
                        .Select(r => new { path = r.Path, replaced_count = r.ReplacedCount }).ToList();
                case "files.watch": return await WatchAsync(path);
                default: throw new NotSupportedException(name);
            }
        }

        private static WriteEntry Write(Args e) => new WriteEntry
        {
            Path = e.Text("path")!, Data = e.Text("text"), Mode = e.Int("mode"), Owner = e.Text("owner"),
            Group = e.Text("group"),
        };

        private IEnumerable<ContentReplaceEntry> Replacements() => _with.Each("entries").Select(e =>
            new ContentReplaceEntry { Path = e.Text("path")!, OldContent = e.Text("old")!, NewContent = e.Text("new")! });

        private async Task<object?> WatchAsync(string path)
        {
            var seen = new List<object>();
            await foreach (var e in Current.Files.WatchAsync(path, _with.Truth("recursive") ?? false))
            {
                if (e.Type == "init")
                    continue;
                seen.Add(new { type = e.Type, path = e.Path, from = e.From, directory = e.Directory });
                if (seen.Count == _with.Int("count"))
                    break;
            }
            return seen;
        }

        // --- code ---

        private async Task<object?> CodeAsync(string name)
        {
            var codes = (_code ??= await OpenSandbox.CodeInterpreter.CodeInterpreter.CreateAsync(Current)).Codes;
            var language = _with.Text("language");
            switch (name)
            {
                case "code.run":
                    var context = _with.Get("context") is JsonElement c
                        ? new CodeContext { Id = new Args(c).Text("id"), Language = new Args(c).Text("language")! } : null;
                    return Execution(await codes.RunAsync(_with.Text("code")!,
                        new RunCodeOptions { Language = language, Context = context }));
                case "code.create_context": return Context(await codes.CreateContextAsync(language!));
                case "code.get_context": return Context(await codes.GetContextAsync(_with.Text("id")!));
                case "code.list_contexts": return (await codes.ListContextsAsync(language)).Select(Context).ToList();
                case "code.delete_contexts": return await Null(codes.DeleteContextsAsync(language!));
                case "code.delete_context": return await Null(codes.DeleteContextAsync(_with.Text("id")!));
                case "code.interrupt": return await Null(codes.InterruptAsync(_with.Text("id")!));
                default: throw new NotSupportedException(name);
            }
        }

        // --- network ---

        private static NetworkRuleAction ActionOf(JsonElement value) =>
            Enum.Parse<NetworkRuleAction>(value.GetString()!, true);

        private static List<NetworkRule> Rules(JsonElement list) => list.EnumerateArray().Select(r => new NetworkRule
        {
            Action = Enum.TryParse<NetworkRuleAction>(r.GetProperty("action").GetString(), true, out var action)
                ? action : throw new InvalidArgumentException("no such action"),
            Target = r.GetProperty("target").GetString()!,
        }).ToList();

        private async Task<object?> EgressAsync(string name)
        {
            switch (name)
            {
                case "egress.get":
                    var policy = await Current.GetEgressPolicyAsync();
                    return new
                    {
                        default_action = policy.DefaultAction?.ToString().ToLowerInvariant(),
                        egress = policy.Egress?.Select(r => new
                            { action = r.Action.ToString().ToLowerInvariant(), target = r.Target }).ToList(),
                    };
                case "egress.patch": return await Null(Current.PatchEgressRulesAsync(Rules(_with.Get("rules")!.Value)));
                case "egress.delete": return await Null(Current.DeleteEgressRulesAsync(_with.List("targets")!));
                default: throw new NotSupportedException(name);
            }
        }

        private static List<Credential>? Credentials(JsonElement? list) => list?.EnumerateArray().Select(c => new Credential
        {
            Name = c.GetProperty("name").GetString()!,
            Source = new InlineCredentialSource { Value = c.GetProperty("value").GetString()! },
        }).ToList();

        private static List<CredentialBinding>? Bindings(JsonElement? list) =>
            list?.EnumerateArray().Select(Read<CredentialBinding>).ToList();

        private async Task<object?> VaultAsync(string name)
        {
            var vault = Current.CredentialVault;
            switch (name)
            {
                case "vault.create":
                    return Vault(await Current.CreateCredentialVaultAsync(Credentials(_with.Get("credentials"))!,
                                                                         Bindings(_with.Get("bindings"))!));
                case "vault.get": return Vault(await vault.GetAsync());
                case "vault.delete": return await Null(vault.DeleteAsync());
                case "vault.patch": return Vault(await vault.PatchAsync(VaultPatch()));
                case "vault.list_credentials": return (await vault.ListCredentialsAsync()).Select(Credential).ToList();
                case "vault.get_credential": return Credential(await vault.GetCredentialAsync(_with.Text("name")!));
                case "vault.list_bindings": return (await vault.ListBindingsAsync()).Select(Binding).ToList();
                case "vault.get_binding": return Binding(await vault.GetBindingAsync(_with.Text("name")!));
                default: throw new NotSupportedException(name);
            }
        }

        private CredentialVaultPatchRequest VaultPatch()
        {
            var request = new CredentialVaultPatchRequest { ExpectedRevision = _with.Int("expected_revision") };
            if (_with.Get("credentials") is JsonElement c)
                request.Credentials = new CredentialMutationSet
                {
                    Add = Credentials(new Args(c).Get("add")), Replace = Credentials(new Args(c).Get("replace")),
                    Delete = new Args(c).List("delete"),
                };
            if (_with.Get("bindings") is JsonElement b)
                request.Bindings = new CredentialBindingMutationSet
                {
                    Add = Bindings(new Args(b).Get("add")), Replace = Bindings(new Args(b).Get("replace")),
                    Delete = new Args(b).List("delete"),
                };
            return request;
        }

        // --- manager, snapshots, images, pools, volumes ---

        private async Task<object?> ManagerAsync(string name)
        {
            var id = _with.Text("id") ?? "";
            var filter = new SandboxFilter
            {
                States = _with.List("states"), Metadata = _with.Map("metadata"), Page = _with.Int("page"),
                PageSize = _with.Int("page_size"),
            };
            switch (name)
            {
                case "manager.list":
                    var page = await Manager.ListSandboxInfosAsync(filter);
                    return Page(page.Items.Select(Info), page.Pagination);
                case "manager.iterate":
                    var ids = new List<string>();
                    await foreach (var info in Manager.EachSandboxAsync(filter))
                        ids.Add(info.Id);
                    return ids;
                case "manager.get": return Info(await Manager.GetSandboxInfoAsync(id));
                case "manager.kill": return await Null(Manager.KillSandboxAsync(id));
                case "manager.pause": return await Null(Manager.PauseSandboxAsync(id));
                case "manager.resume": return await Null(Manager.ResumeSandboxAsync(id));
                case "manager.renew":
                    var renewed = await Manager.RenewSandboxAsync(id, _with.Int("seconds")!.Value);
                    return new { expires_at = Time(renewed.ExpiresAt) };
                case "manager.patch_metadata": return Info(await Manager.PatchSandboxMetadataAsync(id, Patch()));
                default: throw new NotSupportedException(name);
            }
        }

        private async Task<object?> SnapshotsAsync(string name)
        {
            var id = _with.Text("id") ?? "";
            switch (name)
            {
                case "snapshots.create":
                    var (of, named) = (_with.Text("sandbox_id")!, _with.Text("name"));
                    return Snapshot(await (_with.Truth("memory") == true
                        ? Manager.CreateMemorySnapshotAsync(of, named) : Manager.CreateSnapshotAsync(of, named)));
                case "snapshots.get": return Snapshot(await Manager.GetSnapshotAsync(id));
                case "snapshots.list":
                    var page = await Manager.ListSnapshotsAsync(new SnapshotFilter
                    {
                        SandboxId = _with.Text("sandbox_id"), States = _with.List("states"), Page = _with.Int("page"),
                        PageSize = _with.Int("page_size"),
                    });
                    return Page(page.Items.Select(Snapshot), page.Pagination);
                case "snapshots.delete": return await Null(Manager.DeleteSnapshotAsync(id));
                case "snapshots.wait": return Snapshot(await Manager.WaitForSnapshotAsync(id));
                case "snapshots.round_trip":
                    var made = await Current.CreateSnapshotAsync(_with.Text("name"));
                    made = await Manager.WaitForSnapshotAsync(made.Id);
                    await using (var restored = await Sandbox.CreateAsync(new SandboxCreateOptions
                        { ConnectionConfig = Config, SnapshotId = made.Id }))
                    {
                        var kept = await restored.Files.ReadFileAsync("/root/kept");
                        await restored.KillAsync();
                        await Manager.DeleteSnapshotAsync(made.Id);
                        return new { state = made.Status.State, restored = kept };
                    }
                default: throw new NotSupportedException(name);
            }
        }

        private async Task<object?> ServerAsync(string name)
        {
            var server = Manager.Sandboxes;
            var of = _with.Text("name") ?? "";
            switch (name)
            {
                case "images.list":
                    var page = await server.ListImagesAsync(_with.Int("page"), _with.Int("page_size"));
                    return Page(page.Items.Select(Image), page.Pagination);
                case "images.get": return Image(await server.GetImageAsync(of));
                case "images.delete": return await Null(server.DeleteImageAsync(of));
                case "images.pull":
                    return Image(await server.PullImageAsync(new PullImageRequest
                        { Image = new PullImage { Uri = _with.Text("uri")! }, Policy = _with.Text("policy") }));
                case "pools.create":
                    return PoolOf(await server.CreatePoolAsync(new CreatePoolRequest
                        { Name = of, Template = _with.Get("template")!.Value, CapacitySpec = Capacity() }));
                case "pools.get": return PoolOf(await server.GetPoolAsync(of));
                case "pools.list": return (await server.ListPoolsAsync()).Select(PoolOf).ToList();
                case "pools.update": return PoolOf(await server.UpdatePoolAsync(of, Capacity()));
                case "pools.delete": return await Null(server.DeletePoolAsync(of));
                case "volumes.create":
                    return VolumeOf(await server.CreateVolumeAsync(new CreateVolumeRequest { Name = of, Size = _with.Text("size") }));
                case "volumes.get": return VolumeOf(await server.GetVolumeAsync(of));
                case "volumes.delete": return await Null(server.DeleteVolumeAsync(of));
                default: throw new NotSupportedException(name);
            }
        }

        // --- isolated sessions, events ---

        private async Task<object?> IsolatedAsync(string name)
        {
            if (name == "isolated.create")
            {
                _isolated = await Current.Isolation.CreateAsync(new CreateIsolatedSessionRequest
                {
                    Workspace = new IsolatedWorkspace { Path = _with.Text("path")!, Mode = _with.Text("mode") },
                });
                return new { id = _isolated.Id };
            }
            var session = _isolated ?? throw new Exception("there is no isolated session");
            var (code, run) = (_with.Text("code") ?? "", _with.Text("run_id") ?? "");
            var options = new IsolatedRunOptions
            {
                WorkingDirectory = _with.Text("cwd"), Envs = _with.Map("envs"),
                Timeout = _with.Int("timeout_s") is int s ? TimeSpan.FromSeconds(s) : (TimeSpan?)null,
            };
            switch (name)
            {
                case "isolated.run": return Execution(await session.RunAsync(code, options));
                case "isolated.run_background":
                    return new { run_id = (await session.RunInBackgroundAsync(code, options)).RunId };
                case "isolated.run_status":
                    var status = await session.GetRunStatusAsync(run);
                    return new
                    {
                        run_id = status.RunId, running = status.Running, exit_code = status.ExitCode,
                        finished_at = Time(status.FinishedAt),
                    };
                case "isolated.run_logs":
                    var logs = await session.GetRunLogsAsync(run, _with.Int("cursor"));
                    return new { content = logs.Content, cursor = logs.Cursor };
                case "isolated.diff":
                    using (var archive = await session.DiffAsync())
                    using (var all = new MemoryStream())
                    {
                        await archive.CopyToAsync(all);
                        return BitConverter.ToString(all.ToArray()).Replace("-", "").ToLowerInvariant();
                    }
                case "isolated.commit":
                    var done = await session.CommitAsync(_with.Truth("reset") ?? false);
                    return new
                    {
                        files_written = done.FilesWritten, paths_removed = done.PathsRemoved,
                        upper_reset = done.UpperReset,
                    };
                case "isolated.delete": return await Null(session.DeleteAsync());
                default: throw new NotSupportedException(name);
            }
        }

        private async Task<object?> EventsAsync(string name)
        {
            static string? Given(string? text) => string.IsNullOrEmpty(text) ? null : text;
            if (name == "events.watch_a_pause")
            {
                await foreach (var e in Manager.WatchEventsAsync(Current.Id, "0-1"))
                {
                    if (e.Type == LifecycleEventTypes.Reset)
                        await Current.PauseAsync();
                    if (e.Type == "sandbox.paused")
                        return new { type = e.Type, state = e.State, mine = e.SandboxId == Current.Id };
                }
            }
            var seen = new List<object>();
            await foreach (var e in Manager.WatchEventsAsync(_with.Text("sandbox_id"), _with.Text("after")))
            {
                seen.Add(new
                {
                    id = Given(e.Id), type = e.Type, time = Time(e.Time), tenant = Given(e.Tenant),
                    sandbox_id = Given(e.SandboxId), state = Given(e.State), reason = e.Reason, message = e.Message,
                });
                if (seen.Count == _with.Int("count"))
                    break;
            }
            return seen;
        }

        private CapacitySpec Capacity()
        {
            var a = new Args(_with.Get("capacity")!.Value);
            return new CapacitySpec
            {
                BufferMin = a.Int("buffer_min")!.Value, BufferMax = a.Int("buffer_max")!.Value,
                PoolMin = a.Int("pool_min")!.Value, PoolMax = a.Int("pool_max")!.Value,
            };
        }

        // --- neutral forms ---

        private static T Read<T>(JsonElement value) => JsonSerializer.Deserialize<T>(value.GetRawText());

        private static string? Time(DateTime? time)
        {
            if (time == null)
                return null;
            var utc = time.Value.ToUniversalTime();
            return utc.ToString(utc.Ticks % TimeSpan.TicksPerSecond == 0 ? "yyyy-MM-ddTHH:mm:ssZ"
                : "yyyy-MM-ddTHH:mm:ss.ffffffZ", CultureInfo.InvariantCulture);
        }

        private static object Info(SandboxInfo i) => new
        {
            id = i.Id, image = i.Image?.Uri, snapshot_id = i.SnapshotId, state = i.Status.State,
            reason = i.Status.Reason, message = i.Status.Message, metadata = i.Metadata, entrypoint = i.Entrypoint,
            expires_at = Time(i.ExpiresAt), created_at = Time(i.CreatedAt),
            platform = i.Platform == null ? null : new { os = i.Platform.Os, arch = i.Platform.Arch },
        };

        private static object Endpoint(Endpoint e) => new { endpoint = e.EndpointAddress, headers = e.Headers ?? new Dictionary<string, string>() };

        private static object Figures(SandboxMetrics m) => new
        {
            cpu_count = m.CpuCount, cpu_used_pct = m.CpuUsedPercentage, mem_total_mib = m.MemoryTotalMiB,
            mem_used_mib = m.MemoryUsedMiB, timestamp = m.Timestamp,
        };

        private static object Diagnostics(DiagnosticContent d) => new
        {
            kind = d.Kind, scope = d.Scope, delivery = d.Delivery, content_type = d.ContentType, content = d.Content,
            content_url = d.ContentUrl, content_length = d.ContentLength, truncated = d.Truncated,
            expires_at = Time(d.ExpiresAt), warnings = d.Warnings,
        };

        private static object Snapshot(SnapshotInfo s) => new
        {
            id = s.Id, sandbox_id = s.SandboxId, name = s.Name, state = s.Status.State, created_at = Time(s.CreatedAt),
        };

        private static object FileInfo(SandboxFileInfo f) => new
        {
            path = f.Path, type = f.Type, size = f.Size, mode = f.Mode, owner = f.Owner, group = f.Group,
            modified_at = Time(f.ModifiedAt), created_at = Time(f.CreatedAt),
        };

        private static object Status(CommandStatus s) => new
        {
            id = s.Id, content = s.Content, running = s.Running, exit_code = s.ExitCode, error = s.Error,
            started_at = Time(s.StartedAt), finished_at = Time(s.FinishedAt),
        };

        private static object Execution(Execution e) => new
        {
            id = e.Id, stdout = e.Logs.Stdout.Select(m => m.Text).ToList(),
            stderr = e.Logs.Stderr.Select(m => m.Text).ToList(), results = e.Results.Select(r => r.Raw).ToList(),
            error = e.Error == null ? null
                : new { name = e.Error.Name, value = e.Error.Value, traceback = e.Error.Traceback },
            complete_ms = e.Complete?.ExecutionTimeMs, exit_code = e.ExitCode, execution_count = e.ExecutionCount,
            text = e.Text,
        };

        private static object Context(CodeContext c) => new { id = c.Id, language = c.Language };

        private static object Credential(CredentialMetadata c) =>
            new { name = c.Name, source_type = c.SourceType, revision = c.Revision };

        private static object Binding(CredentialBindingMetadata b) => new { name = b.Name, revision = b.Revision };

        private static object Vault(CredentialVaultState v) => new
        {
            revision = v.Revision, credentials = v.Credentials.Select(Credential).ToList(),
            bindings = v.Bindings.Select(Binding).ToList(),
        };

        private static object Page(IEnumerable<object> items, PaginationInfo p) => new
        {
            items = items.ToList(), page = p.Page, page_size = p.PageSize, total_items = p.TotalItems,
            total_pages = p.TotalPages, has_next_page = p.HasNextPage,
        };

        private static object Image(StoredImage i) => new { id = i.Id, names = i.Names, size = i.Size, in_use = i.InUse };

        private static object PoolOf(Pool p) => new
            { name = p.Name, total = p.Status.Total, allocated = p.Status.Allocated, available = p.Status.Available };

        private static object VolumeOf(NamedVolume v) => new { name = v.Name, size_bytes = v.SizeBytes, used_by = v.UsedBy };
    }

    /// <summary>Members of a JSON object; what is missing or null is null.</summary>
    internal readonly struct Args
    {
        private readonly JsonElement _of;

        internal Args(JsonElement of) => _of = of;

        internal JsonElement? Get(string name) => _of.ValueKind == JsonValueKind.Object &&
            _of.TryGetProperty(name, out var value) && value.ValueKind != JsonValueKind.Null
            ? value : (JsonElement?)null;

        internal bool IsNull(string name) => _of.ValueKind == JsonValueKind.Object &&
            _of.TryGetProperty(name, out var value) && value.ValueKind == JsonValueKind.Null;

        internal string? Text(string name) => Get(name)?.GetString();
        internal int? Int(string name) => Get(name)?.GetInt32();
        internal bool? Truth(string name) => Get(name)?.GetBoolean();
        internal TimeSpan? Millis(string name) => Int(name) is int n ? TimeSpan.FromMilliseconds(n) : (TimeSpan?)null;
        internal List<string>? List(string name) => Get(name)?.EnumerateArray().Select(v => v.GetString()!).ToList();
        internal Dictionary<string, string>? Map(string name) =>
            Get(name)?.EnumerateObject().ToDictionary(p => p.Name, p => p.Value.GetString()!);
        internal IEnumerable<Args> Each(string name) => Get(name)!.Value.EnumerateArray().Select(v => new Args(v));
    }
}
