using System;
using System.Collections.Generic;
using System.IO;
using System.Net.Http;
using System.Threading;
using System.Threading.Tasks;
using OpenSandbox.Core;
using OpenSandbox.Internal;
using OpenSandbox.Models;
using OpenSandbox.Services;

namespace OpenSandbox.Adapters
{
    /// <summary>Isolated sessions over HTTP.</summary>
    internal sealed class IsolationAdapter : IIsolation
    {
        private const string Base = "/v1/isolated";
        private readonly Api _api;

        internal IsolationAdapter(Api api) => _api = api;

        public Task<IsolatedCapabilities> GetCapabilitiesAsync(CancellationToken ct) =>
            _api.GetAsync<IsolatedCapabilities>(Base + "/capabilities", ct);

        public async Task<IIsolatedSession> CreateAsync(CreateIsolatedSessionRequest request,
                                                        CancellationToken ct)
        {
            if ((request.Workspace == null) == (request.Overlays == null))
                throw new InvalidArgumentException("Workspace or Overlays must be set, not both");
            return new Session(_api, await _api.PostAsync<IsolatedSessionState>(Base + "/session", request, ct)
                .ConfigureAwait(false));
        }

        public async Task<IIsolatedSession> AttachAsync(string sessionId, CancellationToken ct)
        {
            InvalidArgumentException.NeedText(sessionId, "session id");
            return new Session(_api, await _api.GetAsync<IsolatedSessionState>(PathOf(sessionId), ct)
                .ConfigureAwait(false));
        }

        public async Task<IReadOnlyList<IsolatedSessionSummary>> ListAsync(CancellationToken ct) =>
            (await _api.GetAsync<ListIsolatedSessionsResponse>(Base + "/sessions", ct)
                .ConfigureAwait(false)).Sessions;

        public async Task<Execution> RunOnceAsync(string code, CreateIsolatedSessionRequest request,
            IsolatedRunOptions? options, ExecutionHandlers? handlers, CancellationToken ct)
        {
            var session = await CreateAsync(request, ct).ConfigureAwait(false);
            await using (session.ConfigureAwait(false))
                return await session.RunAsync(code, options, handlers, ct).ConfigureAwait(false);
        }

        private static string PathOf(string sessionId) => Base + Api.Path($"/session/{sessionId}");

        private sealed class Session : IIsolatedSession
        {
            private readonly Api _api;
            private bool _deleted;

            internal Session(Api api, IsolatedSessionState info)
            {
                Info = info;
                _api = api.Below(PathOf(info.SessionId));
                Files = new FilesAdapter(_api);
            }

            public string Id => Info.SessionId;
            public IsolatedSessionState Info { get; }
            public ISandboxFiles Files { get; }

            private static IsolatedRunRequest RequestOf(string code, IsolatedRunOptions? options, bool background)
            {
                InvalidArgumentException.NeedText(code, "code");
                if (options?.Timeout < TimeSpan.Zero)
                    throw new InvalidArgumentException("Timeout must not be negative");
                return new IsolatedRunRequest
                {
                    Code = code, Cwd = options?.WorkingDirectory, Envs = options?.Envs,
                    TimeoutSeconds = options?.Timeout == null ? (int?)null
                        : (int)Math.Min(int.MaxValue, Math.Ceiling(options.Timeout.Value.TotalSeconds)),
                    Background = background ? true : (bool?)null,
                };
            }

            public async Task<Execution> RunAsync(string code, IsolatedRunOptions? options,
                                                  ExecutionHandlers? handlers, CancellationToken ct)
            {
                var run = await Runs.RunAsync(_api, "/run", RequestOf(code, options, false), handlers, ct)
                    .ConfigureAwait(false);
                Runs.SetExitCode(run);
                return run;
            }

            public Task<IsolatedBackgroundRun> RunInBackgroundAsync(string code, IsolatedRunOptions? options,
                                                                    CancellationToken ct) =>
                _api.PostAsync<IsolatedBackgroundRun>("/run", RequestOf(code, options, true), ct);

            public Task<IsolatedRunStatus> GetRunStatusAsync(string runId, CancellationToken ct)
            {
                InvalidArgumentException.NeedText(runId, "run id");
                return _api.GetAsync<IsolatedRunStatus>(Api.Path($"/runs/{runId}"), ct);
            }

            public Task<CommandLogs> GetRunLogsAsync(string runId, long? cursor, CancellationToken ct)
            {
                InvalidArgumentException.NeedText(runId, "run id");
                return CommandsAdapter.LogsAsync(_api, Api.Path($"/runs/{runId}/logs", ("cursor", cursor)),
                                                 "EXECD-ISOLATED-TAIL-CURSOR", ct);
            }

            public Task<IsolatedSessionState> GetStateAsync(CancellationToken ct) =>
                _api.GetAsync<IsolatedSessionState>("", ct);

            public Task<Stream> DiffAsync(CancellationToken ct) =>
                FilesAdapter.OpenStreamAsync(_api, "/diff", ct);

            public Task<IsolatedCommit> CommitAsync(bool resetUpperAfter, CancellationToken ct) =>
                _api.PostAsync<IsolatedCommit>("/commit", resetUpperAfter
                    ? new Dictionary<string, bool> { ["reset_upper_after"] = true } : null, ct);

            public async Task DeleteAsync(CancellationToken ct)
            {
                await _api.DoAsync(HttpMethod.Delete, "", null, ct).ConfigureAwait(false);
                _deleted = true;
            }

            public async ValueTask DisposeAsync()
            {
                if (_deleted)
                    return;
                try
                {
                    await DeleteAsync(default).ConfigureAwait(false);
                }
                catch (SandboxException)
                {
                    // It is gone, or ends when it has been idle for its time; what happened before counts.
                }
            }
        }
    }
}
