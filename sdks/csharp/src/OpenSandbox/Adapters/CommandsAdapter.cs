using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Net.Http;
using System.Text;
using System.Text.Json.Serialization;
using System.Threading;
using System.Threading.Tasks;
using OpenSandbox.Core;
using OpenSandbox.Internal;
using OpenSandbox.Models;
using OpenSandbox.Services;

namespace OpenSandbox.Adapters
{
    /// <summary>Commands and sessions over HTTP.</summary>
    internal sealed class CommandsAdapter : IExecdCommands
    {
        private readonly Api _api;

        internal CommandsAdapter(Api api) => _api = api;

        private static RunCommandRequest RequestOf(string command, RunCommandOptions? options)
        {
            options ??= new RunCommandOptions();
            if (options.Argv == null)
                InvalidArgumentException.NeedText(command, "command");
            else if (!string.IsNullOrEmpty(command) || options.Argv.Count == 0)
                throw new InvalidArgumentException("give a command or an Argv that is not empty");
            if (options.Gid != null && options.Uid == null)
                throw new InvalidArgumentException("Gid needs a Uid");
            if (options.Uid < 0 || options.Gid < 0)
                throw new InvalidArgumentException("Uid and Gid must not be negative");
            return new RunCommandRequest
            {
                Command = options.Argv == null ? command : null,
                Argv = options.Argv,
                Cwd = options.WorkingDirectory,
                Background = options.Background ? true : (bool?)null,
                Timeout = Millis(options.Timeout, options.TimeoutSeconds),
                Uid = options.Uid,
                Gid = options.Gid,
                Envs = options.Envs,
                Stdin = options.Stdin,
                StdinOpen = options.StdinOpen ? true : (bool?)null,
            };
        }

        private static long? Millis(TimeSpan? duration, int? seconds)
        {
            var millis = duration?.TotalMilliseconds ?? seconds * 1000.0;
            if (millis <= 0)
                throw new InvalidArgumentException("Timeout must be positive");
            return (long?)millis;
        }

        public IAsyncEnumerable<ServerStreamEvent> RunStreamAsync(string command,
            RunCommandOptions? options, CancellationToken ct) =>
            Runs.EventsAsync(_api, "/command", RequestOf(command, options), ct);

        public async Task<Execution> RunAsync(string command, RunCommandOptions? options,
                                              ExecutionHandlers? handlers, CancellationToken ct)
        {
            var background = options?.Background == true;
            var run = await Runs.RunAsync(_api, "/command", RequestOf(command, options), handlers, ct,
                background ? null : this).ConfigureAwait(false);
            if (!background)
                Runs.SetExitCode(run);
            return run;
        }

        public Task InterruptAsync(string executionId, CancellationToken ct) =>
            _api.DoAsync(HttpMethod.Delete, Api.Path($"/command", ("id", executionId)), null, ct);

        public Task<CommandStatus> GetCommandStatusAsync(string executionId, CancellationToken ct) =>
            _api.GetAsync<CommandStatus>(Api.Path($"/command/status/{executionId}"), ct);

        public Task<CommandLogs> GetBackgroundCommandLogsAsync(string executionId, long? cursor,
                                                               CancellationToken ct) =>
            LogsAsync(executionId, cursor, null, ct);

        /// <summary>Output from a byte on; of one stream, or of both when it is null.</summary>
        internal Task<CommandLogs> LogsAsync(string executionId, long? cursor, string? stream,
                                             CancellationToken ct) =>
            LogsAsync(_api, Api.Path($"/command/{executionId}/logs", ("cursor", cursor), ("stream", stream)),
                      "EXECD-COMMANDS-TAIL-CURSOR", ct);

        /// <summary>Output of a run; a header of the answer says where the next call goes on.</summary>
        internal static async Task<CommandLogs> LogsAsync(Api api, string path, string cursorHeader,
                                                          CancellationToken ct)
        {
            var (body, head) = await api.CallAsync(HttpMethod.Get, path, null, ct).ConfigureAwait(false);
            var next = long.TryParse(Api.HeaderOf(head, cursorHeader), NumberStyles.None,
                                     CultureInfo.InvariantCulture, out var at) ? at : (long?)null;
            return new CommandLogs { Content = Encoding.UTF8.GetString(body), Cursor = next };
        }

        public async Task WriteInputAsync(string executionId, Stream input, bool endOfInput,
                                          CancellationToken ct) =>
            await _api.CallAsync(HttpMethod.Post,
                Api.Path($"/command/{executionId}/stdin", ("eof", endOfInput)),
                () => FilesAdapter.StreamBody(input, "application/octet-stream"), ct, false)
                .ConfigureAwait(false);

        public async Task<string> CreateSessionAsync(CreateSessionOptions? options, CancellationToken ct)
        {
            var body = new Dictionary<string, string>();
            if (options?.WorkingDirectory != null)
                body["cwd"] = options.WorkingDirectory;
            return (await _api.PostAsync<Session>("/session", body, ct).ConfigureAwait(false)).Id;
        }

        public async Task<Execution> RunInSessionAsync(string sessionId, string command,
            RunInSessionOptions? options, ExecutionHandlers? handlers, CancellationToken ct)
        {
            InvalidArgumentException.NeedText(sessionId, "session id");
            InvalidArgumentException.NeedText(command, "command");
            var run = await Runs.RunAsync(_api, Api.Path($"/session/{sessionId}/run"),
                new RunInSessionRequest
                {
                    Command = command,
                    Cwd = options?.WorkingDirectory,
                    Timeout = Millis(options?.Timeout, options?.TimeoutSeconds),
                }, handlers, ct).ConfigureAwait(false);
            Runs.SetExitCode(run);
            return run;
        }

        public Task DeleteSessionAsync(string sessionId, CancellationToken ct)
        {
            InvalidArgumentException.NeedText(sessionId, "session id");
            return _api.DoAsync(HttpMethod.Delete, Api.Path($"/session/{sessionId}"), null, ct);
        }

        private sealed class Session
        {
            [JsonPropertyName("session_id")]
            public string Id { get; set; } = "";
        }
    }

    /// <summary>Health and metrics over HTTP.</summary>
    internal sealed class ExecdStateAdapter : IExecdHealth, IExecdMetrics
    {
        private readonly Api _api;

        internal ExecdStateAdapter(Api api) => _api = api;

        public async Task<bool> PingAsync(CancellationToken ct)
        {
            await _api.DoAsync(HttpMethod.Get, "/ping", null, ct).ConfigureAwait(false);
            return true;
        }

        public Task<SandboxMetrics> GetMetricsAsync(CancellationToken ct) =>
            _api.GetAsync<SandboxMetrics>("/metrics", ct);

        public async IAsyncEnumerable<SandboxMetrics> WatchMetricsAsync(
            [System.Runtime.CompilerServices.EnumeratorCancellation] CancellationToken ct)
        {
            await foreach (var data in EventStream.OpenAsync(_api, HttpMethod.Get, "/metrics/watch", null,
                                                             ct).ConfigureAwait(false))
            {
                var failure = EventStream.Parse<Failure>(data).Error;
                if (failure != null)
                    throw new SandboxInternalException("metrics: " + failure);
                yield return EventStream.Parse<SandboxMetrics>(data);
            }
            throw new StreamEndedException("the stream of metrics ended");
        }

        private sealed class Failure
        {
            [JsonPropertyName("error")]
            public string? Error { get; set; }
        }
    }
}
