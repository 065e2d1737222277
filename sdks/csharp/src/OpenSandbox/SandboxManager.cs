using System;
using System.Collections.Generic;
using System.Runtime.CompilerServices;
using System.Threading;
using System.Threading.Tasks;
using OpenSandbox.Config;
using OpenSandbox.Core;
using OpenSandbox.Factory;
using OpenSandbox.Models;
using OpenSandbox.Services;

namespace OpenSandbox
{
    /// <summary>Finds and manages sandboxes and snapshots.</summary>
    public sealed class SandboxManager : IAsyncDisposable
    {
        private readonly ConnectionConfig _config;
        private readonly bool _ownsConfig;

        private SandboxManager(SandboxManagerOptions options)
        {
            _ownsConfig = options.ConnectionConfig == null;
            _config = options.ConnectionConfig ?? new ConnectionConfig();
            Sandboxes = (options.AdapterFactory ?? new DefaultAdapterFactory()).CreateLifecycleStack(
                new CreateLifecycleStackOptions
                    { ConnectionConfig = _config, LifecycleBaseUrl = _config.GetBaseUrl() }).Sandboxes;
        }

        /// <summary>Makes a manager.</summary>
        public static SandboxManager Create(SandboxManagerOptions? options = null) =>
            new SandboxManager(options ?? new SandboxManagerOptions());

        /// <summary>The lifecycle API, images, pools and volumes included.</summary>
        public ISandboxes Sandboxes { get; }

        /// <summary>One page of sandboxes.</summary>
        public Task<ListSandboxesResponse> ListSandboxInfosAsync(SandboxFilter? filter = null,
            CancellationToken cancellationToken = default) =>
            Sandboxes.ListSandboxesAsync(filter, cancellationToken);

        /// <summary>All sandboxes that the filter selects, page by page.</summary>
        public async IAsyncEnumerable<SandboxInfo> EachSandboxAsync(SandboxFilter? filter = null,
            [EnumeratorCancellation] CancellationToken cancellationToken = default)
        {
            for (var page = filter?.Page ?? 1; ; page++)
            {
                var answer = await Sandboxes.ListSandboxesAsync(new SandboxFilter
                {
                    States = filter?.States, Metadata = filter?.Metadata, PageSize = filter?.PageSize,
                    Page = page,
                }, cancellationToken).ConfigureAwait(false);
                foreach (var info in answer.Items)
                    yield return info;
                if (!answer.Pagination.HasNextPage)
                    break;
            }
        }

        /// <summary>What the server knows of a sandbox.</summary>
        public Task<SandboxInfo> GetSandboxInfoAsync(string sandboxId,
            CancellationToken cancellationToken = default) =>
            Sandboxes.GetSandboxAsync(sandboxId, cancellationToken);

        /// <summary>Changes keys of the metadata.</summary>
        public Task<SandboxInfo> PatchSandboxMetadataAsync(string sandboxId, SandboxMetadataPatch patch,
            CancellationToken cancellationToken = default) =>
            Sandboxes.PatchSandboxMetadataAsync(sandboxId, patch, cancellationToken);

        /// <summary>Ends a sandbox for good.</summary>
        public Task KillSandboxAsync(string sandboxId, CancellationToken cancellationToken = default) =>
            Sandboxes.DeleteSandboxAsync(sandboxId, cancellationToken);

        /// <summary>Freezes a sandbox.</summary>
        public Task PauseSandboxAsync(string sandboxId, CancellationToken cancellationToken = default) =>
            Sandboxes.PauseSandboxAsync(sandboxId, cancellationToken);

        /// <summary>Lets a paused sandbox go on.</summary>
        public Task ResumeSandboxAsync(string sandboxId, CancellationToken cancellationToken = default) =>
            Sandboxes.ResumeSandboxAsync(sandboxId, cancellationToken);

        /// <summary>Makes a sandbox end this many seconds from now.</summary>
        public Task<RenewSandboxExpirationResponse> RenewSandboxAsync(string sandboxId, int timeoutSeconds,
                                      CancellationToken cancellationToken = default) =>
            Sandbox.Renew(Sandboxes, sandboxId, timeoutSeconds, cancellationToken);

        /// <summary>Asks for a snapshot.</summary>
        public Task<SnapshotInfo> CreateSnapshotAsync(string sandboxId, string? name = null,
            CancellationToken cancellationToken = default) =>
            Sandboxes.CreateSnapshotAsync(sandboxId, name, cancellationToken);

        /// <summary>Asks for a snapshot with the memory of the processes.</summary>
        public Task<SnapshotInfo> CreateMemorySnapshotAsync(string sandboxId, string? name = null,
            CancellationToken cancellationToken = default) =>
            Sandboxes.CreateMemorySnapshotAsync(sandboxId, name, cancellationToken);

        /// <summary>What happens to sandboxes, or to one, until the caller stops; `after` is the id of the last
        /// event that was seen. A stream that breaks is opened again behind the last event; when none came since
        /// it was opened, the break is an exception.</summary>
        public IAsyncEnumerable<LifecycleEvent> WatchEventsAsync(string? sandboxId = null, string? after = null,
            CancellationToken cancellationToken = default) =>
            Sandboxes.WatchEventsAsync(sandboxId, after, cancellationToken);

        /// <summary>What the server knows of a snapshot.</summary>
        public Task<SnapshotInfo> GetSnapshotAsync(string snapshotId,
            CancellationToken cancellationToken = default) =>
            Sandboxes.GetSnapshotAsync(snapshotId, cancellationToken);

        /// <summary>Waits until a snapshot is Ready; a failed one is an exception with its reason.</summary>
        public async Task<SnapshotInfo> WaitForSnapshotAsync(string snapshotId,
            CancellationToken cancellationToken = default)
        {
            for (var pause = 20; ; pause = Math.Min(1000, pause * 2))
            {
                var info = await GetSnapshotAsync(snapshotId, cancellationToken).ConfigureAwait(false);
                if (info.Status.State == SnapshotStates.Ready)
                    return info;
                if (info.Status.State == SnapshotStates.Failed)
                    throw new SandboxUnhealthyException(
                        $"snapshot {snapshotId} failed: {info.Status.Reason} {info.Status.Message}");
                await Task.Delay(pause, cancellationToken).ConfigureAwait(false);
            }
        }

        /// <summary>One page of snapshots.</summary>
        public Task<ListSnapshotsResponse> ListSnapshotsAsync(SnapshotFilter? filter = null,
            CancellationToken cancellationToken = default) =>
            Sandboxes.ListSnapshotsAsync(filter, cancellationToken);

        /// <summary>Removes a snapshot.</summary>
        public Task DeleteSnapshotAsync(string snapshotId, CancellationToken cancellationToken = default) =>
            Sandboxes.DeleteSnapshotAsync(snapshotId, cancellationToken);

        /// <summary>Frees local resources.</summary>
        public ValueTask DisposeAsync()
        {
            if (_ownsConfig)
                _config.Dispose();
            return default;
        }
    }
}
