using System;
using System.Collections.Generic;
using System.IO;
using System.IO.Compression;
using System.Linq;
using System.Text;
using System.Threading;
using System.Threading.Tasks;
using OpenSandbox.CodeInterpreter.Models;
using OpenSandbox.Config;
using OpenSandbox.Core;
using OpenSandbox.Models;

namespace OpenSandbox.Tests
{
    /// <summary>The SDK against the server that OPEN_SANDBOX_DOMAIN names.</summary>
    internal sealed class RealServer
    {
        private const string Image = "python:3.12";
        private readonly ConnectionConfig _config = new ConnectionConfig();
        private Sandbox _sandbox = default!;

        internal async Task RunAsync(Tap tap)
        {
            await tap.TestAsync("server: create, info, renew, metadata, endpoints", LifeAsync);
            if (_sandbox == null)
                return;
            await tap.TestAsync("server: commands", CommandsAsync);
            await tap.TestAsync("server: a stream of events", StreamAsync);
            await tap.TestAsync("server: a cancelled command", CancelAsync);
            await tap.TestAsync("server: input of a command", InputAsync);
            await tap.TestAsync("server: background commands", BackgroundAsync);
            await tap.TestAsync("server: sessions", SessionsAsync);
            await tap.TestAsync("server: isolated sessions", IsolationAsync);
            await tap.TestAsync("server: the layer of an isolated session", IsolatedLayerAsync);
            await tap.TestAsync("server: files", FilesAsync);
            await tap.TestAsync("server: large files", LargeFilesAsync);
            await tap.TestAsync("server: watching a directory", WatchAsync);
            await tap.TestAsync("server: code", CodeAsync);
            await tap.TestAsync("server: a terminal", TerminalAsync);
            await tap.TestAsync("server: metrics", MetricsAsync);
            await tap.TestAsync("server: network policy", EgressAsync);
            await tap.TestAsync("server: snapshot, restore, fork", SnapshotsAsync);
            await tap.TestAsync("server: manager", ManagerAsync);
            await tap.TestAsync("server: errors", ErrorsAsync);
            await tap.TestAsync("server: pause, resume, kill", EndAsync);
            _config.Dispose();
        }

        private async Task LifeAsync()
        {
            _sandbox = await Sandbox.CreateAsync(new SandboxCreateOptions
            {
                ConnectionConfig = _config, Image = Image, TimeoutSeconds = 300,
                Metadata = new Dictionary<string, string> { ["of"] = "csharp" },
                Env = new Dictionary<string, string> { ["GREETING"] = "hello" },
            });
            var info = await _sandbox.GetInfoAsync();
            Check.Equal("Running", info.Status.State);
            Check.Equal("csharp", info.Metadata!["of"]);
            Check.True(await _sandbox.IsHealthyAsync(), "not healthy");
            var renewed = await _sandbox.RenewAsync(600);
            Check.True(renewed.ExpiresAt > info.ExpiresAt, "did not renew");
            var patched = await _sandbox.PatchMetadataAsync(
                new SandboxMetadataPatch { ["of"] = null, ["more"] = "yes" });
            Check.Equal("yes", patched.Metadata!["more"]);
            Check.True(!patched.Metadata.ContainsKey("of"), "the key is still there");
            Check.True((await _sandbox.GetEndpointUrlAsync(8000)).StartsWith("http://"), "no URL");
        }

        private async Task CommandsAsync()
        {
            var run = await _sandbox.Commands.RunAsync("echo \"$GREETING\"; echo bad >&2; exit 3");
            Check.Equal("hello", run.Text);
            Check.Equal("bad", run.Logs.Stderr.Single().Text);
            Check.Equal(3, run.ExitCode);
            Check.Equal("CommandExecError", run.Error!.Name);
            var seen = new List<string>();
            run = await _sandbox.Commands.RunAsync("for i in 1 2 3; do echo $i; done", null,
                new ExecutionHandlers
                {
                    OnStdout = m => { seen.Add(m.Text); return Task.CompletedTask; },
                    SkipAccumulation = true,
                });
            Check.Equal("1,2,3", string.Join(",", seen));
            Check.Equal(0, run.Logs.Stdout.Count);
            Check.Equal(0, run.ExitCode);
            run = await _sandbox.Commands.RunAsync("pwd; id -u; echo $X", new RunCommandOptions
            {
                WorkingDirectory = "/tmp", Uid = 1000, Gid = 1000,
                Envs = new Dictionary<string, string> { ["X"] = "ü" },
            });
            Check.Equal("/tmp\n1000\nü", run.Text);
            await Check.Throws<InvalidArgumentException>(() => _sandbox.Commands.RunAsync(" "));
            await Check.Throws<InvalidArgumentException>(() => _sandbox.Commands.RunAsync("id",
                new RunCommandOptions { Gid = 1 }));
            var thrown = await Check.Throws<InvalidOperationException>(() => _sandbox.Commands.RunAsync(
                "echo x", null, new ExecutionHandlers { OnStdout = m => throw new InvalidOperationException("mine") }));
            Check.Equal("mine", thrown.Message);
        }

        private async Task StreamAsync()
        {
            var types = new List<string>();
            await foreach (var e in _sandbox.Commands.RunStreamAsync("echo a; echo b"))
                types.Add(e.Type);
            Check.Equal("init,stdout,stdout,execution_complete",
                        string.Join(",", types.Where(t => t != "ping" && t != "status")));
            await foreach (var e in _sandbox.Commands.RunStreamAsync("yes"))
                if (e.Type == "stdout")
                    break; // leaves a stream that never ends
        }

        private async Task CancelAsync()
        {
            using var cancel = new CancellationTokenSource();
            await Check.Throws<OperationCanceledException>(() => _sandbox.Commands.RunAsync(
                "echo here; sleep 600", null, new ExecutionHandlers
                {
                    OnStdout = m => { cancel.Cancel(); return Task.CompletedTask; },
                }, cancel.Token));
        }

        private async Task InputAsync()
        {
            var run = await _sandbox.Commands.RunAsync("cat", new RunCommandOptions { Stdin = "given" });
            Check.Equal("given", run.Text);
            run = await _sandbox.Commands.RunAsync("cat", new RunCommandOptions { StdinOpen = true },
                new ExecutionHandlers
                {
                    OnInit = async init => await _sandbox.Commands.WriteInputAsync(init.Id,
                        new MemoryStream(Encoding.UTF8.GetBytes("later\n")), true),
                });
            Check.Equal("later", run.Text);
        }

        private async Task BackgroundAsync()
        {
            var run = await _sandbox.Commands.RunAsync("echo first; exec sleep 600",
                new RunCommandOptions { Background = true });
            Check.Equal<int?>(null, run.ExitCode);
            CommandLogs logs;
            var text = "";
            long? cursor = 0;
            do
            {
                logs = await _sandbox.Commands.GetBackgroundCommandLogsAsync(run.Id!, cursor);
                text += logs.Content;
                cursor = logs.Cursor;
            } while (!text.Contains("first"));
            Check.Equal<bool?>(true, (await _sandbox.Commands.GetCommandStatusAsync(run.Id!)).Running);
            await _sandbox.Commands.InterruptAsync(run.Id!);
            CommandStatus status;
            do
                status = await _sandbox.Commands.GetCommandStatusAsync(run.Id!);
            while (status.Running == true);
            Check.True(status.ExitCode != 0, "an interrupted command succeeded");
        }

        private async Task SessionsAsync()
        {
            var id = await _sandbox.Commands.CreateSessionAsync(
                new CreateSessionOptions { WorkingDirectory = "/tmp" });
            await _sandbox.Commands.RunInSessionAsync(id, "export KEPT=1; cd /usr");
            var run = await _sandbox.Commands.RunInSessionAsync(id, "echo $KEPT; pwd");
            Check.Equal("1\n/usr", run.Text);
            run = await _sandbox.Commands.RunInSessionAsync(id, "false");
            Check.Equal(1, run.ExitCode);
            await _sandbox.Commands.DeleteSessionAsync(id);
        }

        private async Task IsolationAsync()
        {
            var can = await _sandbox.Isolation.GetCapabilitiesAsync();
            Check.True(can.Available && can.Isolator.Length > 0 && can.CommitSupported == true, "no sessions");
            string id;
            await using (var session = await _sandbox.Isolation.CreateAsync(new CreateIsolatedSessionRequest
            {
                Workspace = new IsolatedWorkspace { Path = "/srv/i" }, Uid = 1000, Gid = 1001,
                IdleTimeoutSeconds = 600,
            }))
            {
                id = session.Id;
                var seen = new List<string>();
                var run = await session.RunAsync("pwd; id -u; id -g; echo $A; kept=yes; echo bad >&2; (exit 3)",
                    new IsolatedRunOptions
                    {
                        Envs = new Dictionary<string, string> { ["A"] = "b c" },
                        Timeout = TimeSpan.FromSeconds(60),
                    },
                    new ExecutionHandlers { OnStdout = m => { seen.Add(m.Text); return Task.CompletedTask; } });
                Check.Equal("/srv/i|1000|1001|b c", string.Join("|", seen));
                Check.Equal("bad", run.Logs.Stderr.Single().Text);
                Check.Equal(3, run.ExitCode);
                var state = await session.GetStateAsync();
                Check.Equal("active", state.Status);
                Check.Equal("strict overlay", state.Profile + " " + state.Workspace!.Mode);
                Check.True(state.IdleRemainingSeconds <= 600, "no idle time");
                Check.Equal(id, (await _sandbox.Isolation.ListAsync()).Single().SessionId);
                var again = await _sandbox.Isolation.AttachAsync(id);
                Check.Equal<long?>(1001, again.Info.Gid);
                Check.Equal("yes", (await again.RunAsync("echo $kept")).Text);
                await Check.Throws<InvalidArgumentException>(() => session.RunAsync(" "));
            }
            Check.Equal(0, (await _sandbox.Isolation.ListAsync()).Count);
            var gone = await Check.Throws<SandboxApiException>(() => _sandbox.Isolation.AttachAsync(id));
            Check.Equal<int?>(404, gone.StatusCode);
            await Check.Throws<InvalidArgumentException>(
                () => _sandbox.Isolation.CreateAsync(new CreateIsolatedSessionRequest()));
        }

        private async Task IsolatedLayerAsync()
        {
            var session = await _sandbox.Isolation.CreateAsync(new CreateIsolatedSessionRequest
                { Workspace = new IsolatedWorkspace { Path = "/srv/l" } });
            await session.Files.WriteFilesAsync(new[] { new WriteEntry { Path = "/srv/l/mine", Data = "new" } });
            Check.Equal("new", (await session.RunAsync("cat mine")).Text);
            Check.Equal("", (await _sandbox.Commands.RunAsync("ls /srv/l")).Text);
            using (var diff = await session.DiffAsync())
            using (var tar = new MemoryStream())
            {
                using (var unpacked = new GZipStream(diff, CompressionMode.Decompress))
                    await unpacked.CopyToAsync(tar);
                Check.True(Encoding.ASCII.GetString(tar.ToArray()).Contains("mine"), "not in the layer");
            }
            var done = await session.CommitAsync(true);
            Check.Equal(1L, done.FilesWritten);
            Check.True(done.UpperReset, "the layer was kept");
            Check.Equal("new", await _sandbox.Files.ReadFileAsync("/srv/l/mine"));
            var started = await session.RunInBackgroundAsync("echo $A; echo two >&2; exit 4",
                new IsolatedRunOptions { Envs = new Dictionary<string, string> { ["A"] = "one" } });
            IsolatedRunStatus status;
            do
                status = await session.GetRunStatusAsync(started.RunId);
            while (status.Running);
            Check.Equal<int?>(4, status.ExitCode);
            Check.True(status.FinishedAt >= status.StartedAt, "no end");
            var logs = await session.GetRunLogsAsync(started.RunId, 4);
            Check.Equal("two\n", logs.Content);
            Check.Equal<long?>(8, logs.Cursor);
            await session.DeleteAsync();
            await session.DisposeAsync();
            var run = await _sandbox.Isolation.RunOnceAsync("echo $((6 * 7))", new CreateIsolatedSessionRequest
                { Workspace = new IsolatedWorkspace { Path = "/srv/o", Mode = "rw" } });
            Check.Equal("42", run.Text);
            Check.Equal(0, (await _sandbox.Isolation.ListAsync()).Count);
        }

        private async Task FilesAsync()
        {
            var files = _sandbox.Files;
            await files.CreateDirectoriesAsync(new[]
                { new CreateDirectoryEntry { Path = "/tmp/cs/in", Mode = 755 } });
            await files.WriteFilesAsync(new[]
            {
                new WriteEntry { Path = "/tmp/cs/a \"b\".txt", Data = "Hello Wörld\nsecond\n", Mode = 644 },
                new WriteEntry { Path = "/tmp/cs/in/bytes", Data = new byte[] { 0, 1, 255 } },
            });
            Check.Equal("Hello Wörld\nsecond\n", await files.ReadFileAsync("/tmp/cs/a \"b\".txt"));
            Check.Equal("second", await files.ReadFileAsync("/tmp/cs/a \"b\".txt",
                new ReadFileOptions { Offset = 2, Limit = 1 }));
            Check.Equal(2, (await files.ReadBytesAsync("/tmp/cs/in/bytes",
                new ReadBytesOptions { Range = "bytes=1-2" })).Length);
            var info = (await files.GetFileInfoAsync(new[] { "/tmp/cs/in/bytes" }))["/tmp/cs/in/bytes"];
            Check.Equal(3L, info.Size);
            Check.Equal("file", info.Type);
            Check.Equal("/tmp/cs/in/bytes", (await files.SearchAsync(
                new SearchEntry { Path = "/tmp/cs", Pattern = "*bytes" })).Single().Path);
            Check.Equal(2, (await files.ListDirectoryAsync("/tmp/cs")).Count);
            await files.ReplaceContentsAsync(new[] { new ContentReplaceEntry
                { Path = "/tmp/cs/a \"b\".txt", OldContent = "second", NewContent = "2nd" } });
            var counts = await files.ReplaceContentsDetailedAsync(new[] { new ContentReplaceEntry
                { Path = "/tmp/cs/a \"b\".txt", OldContent = "l", NewContent = "L" } });
            Check.Equal(3, counts.Single().ReplacedCount);
            await files.SetPermissionsAsync(new[]
                { new SetPermissionEntry { Path = "/tmp/cs/in/bytes", Mode = 600 } });
            await files.MoveFilesAsync(new[]
                { new MoveEntry { Src = "/tmp/cs/in/bytes", Dest = "/tmp/cs/moved" } });
            Check.Equal("600", (await _sandbox.Commands.RunAsync("stat -c %a /tmp/cs/moved")).Text);
            using (var tar = await files.DownloadDirectoryAsync("/tmp/cs"))
            using (var copy = new MemoryStream())
            {
                await tar.CopyToAsync(copy);
                copy.Position = 0;
                await files.CreateDirectoriesAsync(new[] { new CreateDirectoryEntry { Path = "/tmp/cs2" } });
                await files.UploadDirectoryAsync("/tmp/cs2", copy);
            }
            Check.Equal("3", (await _sandbox.Commands.RunAsync(
                "find /tmp/cs2 -name moved -size -2 | xargs cat | wc -c")).Text);
            await files.DeleteFilesAsync(new[] { "/tmp/cs/moved" });
            await files.DeleteDirectoriesAsync(new[] { "/tmp/cs", "/tmp/cs2" });
            var gone = await Check.Throws<SandboxApiException>(() => files.ReadFileAsync("/tmp/cs/moved"));
            Check.Equal<int?>(404, gone.StatusCode);
            await Check.Throws<InvalidArgumentException>(() => files.WriteFilesAsync(
                new[] { new WriteEntry { Path = "/tmp/x", Data = 7 } }));
        }

        private static async IAsyncEnumerable<byte[]> Pieces(int count)
        {
            for (var i = 0; i < count; i++)
            {
                await Task.Yield();
                yield return new byte[1 << 20];
            }
        }

        private async Task LargeFilesAsync()
        {
            await _sandbox.Files.WriteFilesAsync(new[]
                { new WriteEntry { Path = "/tmp/large", Data = Pieces(20) } });
            long bytes = 0;
            await foreach (var piece in _sandbox.Files.ReadBytesStreamAsync("/tmp/large"))
                bytes += piece.Length;
            Check.Equal(20L << 20, bytes);
            await foreach (var piece in _sandbox.Files.ReadBytesStreamAsync("/tmp/large"))
                break;
        }

        private async Task WatchAsync()
        {
            using var cancel = new CancellationTokenSource();
            await _sandbox.Commands.RunAsync("mkdir -p /tmp/watched");
            Task? writer = null;
            var seen = false;
            await foreach (var e in _sandbox.Files.WatchAsync("/tmp/watched", true, cancel.Token))
            {
                writer ??= _sandbox.Commands.RunAsync("touch /tmp/watched/new");
                if (e.Path == "/tmp/watched/new")
                {
                    seen = true;
                    break;
                }
            }
            await writer!;
            Check.True(seen, "no event");
        }

        private async Task CodeAsync()
        {
            var interpreter = await OpenSandbox.CodeInterpreter.CodeInterpreter.CreateAsync(_sandbox);
            var run = await interpreter.Codes.RunAsync("x = 40\nprint('out')\nx + 2");
            Check.Equal("42", run.Results.Single().Text);
            Check.Equal("out", run.Logs.Stdout[0].Text.TrimEnd('\n'));
            var context = await interpreter.Codes.CreateContextAsync(SupportedLanguage.Python);
            run = await interpreter.Codes.RunAsync("x", new RunCodeOptions { Context = context });
            Check.Equal("NameError", run.Error!.Name);
            Check.True((await interpreter.Codes.ListContextsAsync("python")).Any(c => c.Id == context.Id),
                       "the context is not listed");
            Check.Equal(context.Id, (await interpreter.Codes.GetContextAsync(context.Id!)).Id);
            await interpreter.Codes.DeleteContextAsync(context.Id!);
            await Check.Throws<InvalidArgumentException>(() => interpreter.Codes.RunAsync("1",
                new RunCodeOptions { Context = context, Language = "go" }));
        }

        private async Task TerminalAsync()
        {
            await using var pty = await _sandbox.OpenPtyAsync();
            await pty.ResizeAsync(90, 33);
            await pty.WriteAsync("stty size; exit 4\n");
            var text = new StringBuilder();
            byte[]? piece;
            while ((piece = await pty.ReadAsync()) != null)
                text.Append(Encoding.UTF8.GetString(piece));
            Check.True(text.ToString().Contains("33 90"), "size not in: " + text);
            Check.Equal<int?>(4, pty.ExitCode);
            await pty.DeleteAsync();
        }

        private async Task MetricsAsync()
        {
            Check.True((await _sandbox.GetMetricsAsync()).MemoryTotalMiB > 0, "no memory");
            await foreach (var figures in _sandbox.Metrics.WatchMetricsAsync())
            {
                Check.True(figures.Timestamp > 0, "no time");
                break;
            }
        }

        private async Task EgressAsync()
        {
            await using var closed = await Sandbox.CreateAsync(new SandboxCreateOptions
            {
                ConnectionConfig = _config, Image = Image,
                NetworkPolicy = new NetworkPolicy
                {
                    DefaultAction = NetworkRuleAction.Deny,
                    Egress = new List<NetworkRule>
                        { new NetworkRule { Action = NetworkRuleAction.Allow, Target = "pypi.org" } },
                },
            });
            try
            {
                await closed.PatchEgressRulesAsync(new[]
                    { new NetworkRule { Action = NetworkRuleAction.Allow, Target = "*.example.com" } });
                var policy = await closed.GetEgressPolicyAsync();
                Check.Equal<NetworkRuleAction?>(NetworkRuleAction.Deny, policy.DefaultAction);
                Check.Equal(2, policy.Egress!.Count);
                await closed.DeleteEgressRulesAsync(new[] { "pypi.org" });
                Check.Equal("*.example.com", (await closed.GetEgressPolicyAsync()).Egress!.Single().Target);
            }
            finally
            {
                await closed.KillAsync();
            }
        }

        private async Task SnapshotsAsync()
        {
            await using var manager = SandboxManager.Create(
                new SandboxManagerOptions { ConnectionConfig = _config });
            await _sandbox.Commands.RunAsync("echo kept > /root/kept");
            var snapshot = await _sandbox.CreateSnapshotAsync("of-csharp");
            snapshot = await manager.WaitForSnapshotAsync(snapshot.Id);
            var restored = await Sandbox.CreateAsync(new SandboxCreateOptions
                { ConnectionConfig = _config, SnapshotId = snapshot.Id });
            Check.Equal("kept", await Kept(restored));
            await restored.KillAsync();
            foreach (var fork in await _sandbox.ForkAsync(new ForkRequest { Count = 2 }))
            {
                Check.Equal("kept", await Kept(fork));
                await fork.KillAsync();
            }
            Check.True((await manager.ListSnapshotsAsync(new SnapshotFilter
                { SandboxId = _sandbox.Id, PageSize = 5 })).Items.Any(s => s.Id == snapshot.Id), "not listed");
            await manager.DeleteSnapshotAsync(snapshot.Id);
        }

        private static async Task<string> Kept(Sandbox sandbox) =>
            (await sandbox.Files.ReadFileAsync("/root/kept")).TrimEnd('\n');

        private async Task ManagerAsync()
        {
            await using var manager = SandboxManager.Create(
                new SandboxManagerOptions { ConnectionConfig = _config });
            var list = await manager.ListSandboxInfosAsync(new SandboxFilter
            {
                States = new[] { SandboxStates.Running }, PageSize = 10,
                Metadata = new Dictionary<string, string> { ["more"] = "yes" },
            });
            Check.Equal(_sandbox.Id, list.Items.Single().Id);
            var ids = new List<string>();
            await foreach (var info in manager.EachSandboxAsync(new SandboxFilter { PageSize = 1 }))
                ids.Add(info.Id);
            Check.True(ids.Contains(_sandbox.Id), "not in the pages");
            await manager.Sandboxes.CreateVolumeAsync(new CreateVolumeRequest { Name = "of-csharp" });
            Check.Equal("of-csharp", (await manager.Sandboxes.GetVolumeAsync("of-csharp")).Name);
            await manager.Sandboxes.DeleteVolumeAsync("of-csharp");
        }

        private async Task ErrorsAsync()
        {
            await using var manager = SandboxManager.Create(
                new SandboxManagerOptions { ConnectionConfig = _config });
            var missing = await Check.Throws<SandboxApiException>(
                () => manager.GetSandboxInfoAsync("no-such-sandbox"));
            Check.Equal<int?>(404, missing.StatusCode);
            Check.True(missing.Error.Code.Length > 0 && missing.RequestId != null, "no code or request id");
            using var wrong = new ConnectionConfig(new ConnectionConfigOptions
                { Domain = _config.Domain, ApiKey = "wrong" });
            var refused = await Check.Throws<SandboxApiException>(() => Sandbox.CreateAsync(
                new SandboxCreateOptions { ConnectionConfig = wrong, Image = Image }));
            Check.Equal<int?>(401, refused.StatusCode);
            await Check.Throws<InvalidArgumentException>(() => Sandbox.CreateAsync(
                new SandboxCreateOptions { ConnectionConfig = _config }));
            using var nowhere = new ConnectionConfig(new ConnectionConfigOptions
                { Domain = "127.0.0.1:1", MaxRetries = 0 });
            await Check.Throws<SandboxInternalException>(() => Sandbox.CreateAsync(
                new SandboxCreateOptions { ConnectionConfig = nowhere, Image = Image }));
        }

        private async Task EndAsync()
        {
            await _sandbox.PauseAsync();
            SandboxInfo info;
            do
                info = await _sandbox.GetInfoAsync();
            while (info.Status.State != SandboxStates.Paused);
            await using var resumed = await _sandbox.ResumeAsync();
            Check.Equal("on", (await resumed.Commands.RunAsync("echo on")).Text);
            await using var again = await Sandbox.ConnectAsync(new SandboxConnectOptions
                { ConnectionConfig = _config, SandboxId = _sandbox.Id });
            await again.KillAsync();
            var gone = await Check.Throws<SandboxApiException>(() => again.GetInfoAsync());
            Check.Equal<int?>(404, gone.StatusCode);
        }
    }
}
