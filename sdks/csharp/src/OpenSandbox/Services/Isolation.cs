using System;
using System.Collections.Generic;
using System.IO;
using System.Threading;
using System.Threading.Tasks;
using OpenSandbox.Models;

namespace OpenSandbox.Services
{
    /// <summary>Makes and finds isolated sessions: sandboxes inside the sandbox.</summary>
    public interface IIsolation
    {
        /// <summary>Whether isolated sessions can be made, and how.</summary>
        Task<IsolatedCapabilities> GetCapabilitiesAsync(CancellationToken cancellationToken = default);

        /// <summary>Makes a session; disposing it ends it.</summary>
        Task<IIsolatedSession> CreateAsync(CreateIsolatedSessionRequest request, CancellationToken cancellationToken = default);

        /// <summary>A session that is there already; disposing it ends it, too.</summary>
        Task<IIsolatedSession> AttachAsync(string sessionId, CancellationToken cancellationToken = default);

        /// <summary>All sessions, in no order.</summary>
        Task<IReadOnlyList<IsolatedSessionSummary>> ListAsync(CancellationToken cancellationToken = default);

        /// <summary>Runs shell code in a session that is made for it.</summary>
        Task<Execution> RunOnceAsync(string code, CreateIsolatedSessionRequest request, IsolatedRunOptions? options = null, ExecutionHandlers? handlers = null, CancellationToken cancellationToken = default);
    }

    /// <summary>One isolated session. Disposing it ends it, and overlooks that it is gone or cannot be reached:
    /// it then ends when it has been idle for its time.</summary>
    public interface IIsolatedSession : IAsyncDisposable
    {
        /// <summary>Id of the session.</summary>
        string Id { get; }

        /// <summary>What the server said when the session was made or attached to.</summary>
        IsolatedSessionState Info { get; }

        /// <summary>Files as the session sees them.</summary>
        ISandboxFiles Files { get; }

        /// <summary>Runs code in the session's shell, which keeps its directory and variables, to its end.</summary>
        Task<Execution> RunAsync(string code, IsolatedRunOptions? options = null, ExecutionHandlers? handlers = null, CancellationToken cancellationToken = default);

        /// <summary>Starts code beside the session's shell and without its state.</summary>
        Task<IsolatedBackgroundRun> RunInBackgroundAsync(string code, IsolatedRunOptions? options = null, CancellationToken cancellationToken = default);

        /// <summary>Whether a background run goes on, and how it ended.</summary>
        Task<IsolatedRunStatus> GetRunStatusAsync(string runId, CancellationToken cancellationToken = default);

        /// <summary>Output of a background run from cursor on.</summary>
        Task<CommandLogs> GetRunLogsAsync(string runId, long? cursor = null, CancellationToken cancellationToken = default);

        /// <summary>How the session fares.</summary>
        Task<IsolatedSessionState> GetStateAsync(CancellationToken cancellationToken = default);

        /// <summary>What the session wrote into its layer, as tar in gzip; dispose the stream.</summary>
        Task<Stream> DiffAsync(CancellationToken cancellationToken = default);

        /// <summary>Writes what the session wrote into the workspace; with resetUpperAfter the session begins
        /// anew, with an empty layer.</summary>
        Task<IsolatedCommit> CommitAsync(bool resetUpperAfter = false, CancellationToken cancellationToken = default);

        /// <summary>Ends the session and all that runs in it.</summary>
        Task DeleteAsync(CancellationToken cancellationToken = default);
    }
}
