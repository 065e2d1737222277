using System;
using System.Collections.Generic;
using System.IO;
using System.Threading;
using System.Threading.Tasks;
using OpenSandbox.Models;

namespace OpenSandbox.Services
{
    /// <summary>The lifecycle API.</summary>
    public interface ISandboxes
    {
        /// <summary>Asks for a sandbox; it may be Pending when this returns.</summary>
        Task<SandboxInfo> CreateSandboxAsync(CreateSandboxRequest request, CancellationToken cancellationToken = default);

        /// <summary>What the server knows of a sandbox.</summary>
        Task<SandboxInfo> GetSandboxAsync(string sandboxId, CancellationToken cancellationToken = default);

        /// <summary>One page of sandboxes.</summary>
        Task<ListSandboxesResponse> ListSandboxesAsync(SandboxFilter? filter = null, CancellationToken cancellationToken = default);

        /// <summary>Ends a sandbox for good.</summary>
        Task DeleteSandboxAsync(string sandboxId, CancellationToken cancellationToken = default);

        /// <summary>Freezes the processes of a sandbox.</summary>
        Task PauseSandboxAsync(string sandboxId, CancellationToken cancellationToken = default);

        /// <summary>Lets a paused sandbox go on.</summary>
        Task ResumeSandboxAsync(string sandboxId, CancellationToken cancellationToken = default);

        /// <summary>Sets when a sandbox ends.</summary>
        Task<RenewSandboxExpirationResponse> RenewSandboxExpirationAsync(string sandboxId, RenewSandboxExpirationRequest request, CancellationToken cancellationToken = default);

        /// <summary>Changes keys of the metadata.</summary>
        Task<SandboxInfo> PatchSandboxMetadataAsync(string sandboxId, SandboxMetadataPatch patch, CancellationToken cancellationToken = default);

        /// <summary>Address of a port of a sandbox, and the headers that requests to it need.</summary>
        Task<Endpoint> GetSandboxEndpointAsync(string sandboxId, int port, bool useServerProxy = false, long? expires = null, CancellationToken cancellationToken = default);

        /// <summary>Asks for a snapshot.</summary>
        Task<SnapshotInfo> CreateSnapshotAsync(string sandboxId, string? name = null, CancellationToken cancellationToken = default);

        /// <summary>The same with the memory of its processes: a sandbox of it goes on where this one was.</summary>
        Task<SnapshotInfo> CreateMemorySnapshotAsync(string sandboxId, string? name = null, CancellationToken cancellationToken = default);

        /// <summary>What happens to sandboxes, or to one, until the caller stops; `after` is the id of the last
        /// event that was seen. A stream that breaks is opened again behind the last event; when none came since
        /// it was opened, the break is an exception.</summary>
        IAsyncEnumerable<LifecycleEvent> WatchEventsAsync(string? sandboxId = null, string? after = null, CancellationToken cancellationToken = default);

        /// <summary>What the server knows of a snapshot.</summary>
        Task<SnapshotInfo> GetSnapshotAsync(string snapshotId, CancellationToken cancellationToken = default);

        /// <summary>One page of snapshots.</summary>
        Task<ListSnapshotsResponse> ListSnapshotsAsync(SnapshotFilter? filter = null, CancellationToken cancellationToken = default);

        /// <summary>Removes a snapshot.</summary>
        Task DeleteSnapshotAsync(string snapshotId, CancellationToken cancellationToken = default);

        /// <summary>Makes sandboxes of a running one's files.</summary>
        Task<IReadOnlyList<SandboxInfo>> ForkSandboxAsync(string sandboxId, ForkRequest request, CancellationToken cancellationToken = default);

        /// <summary>Returns a sandbox to the files of a snapshot.</summary>
        Task<SandboxInfo> RollbackSandboxAsync(string sandboxId, string snapshotId, CancellationToken cancellationToken = default);

        /// <summary>Ends the processes of a persistent sandbox and keeps its files.</summary>
        Task StopSandboxAsync(string sandboxId, CancellationToken cancellationToken = default);

        /// <summary>Starts a persistent sandbox again.</summary>
        Task StartSandboxAsync(string sandboxId, CancellationToken cancellationToken = default);

        /// <summary>What a sandbox printed; scope is one that the server knows.</summary>
        Task<DiagnosticContent> GetDiagnosticLogsAsync(string sandboxId, string scope, CancellationToken cancellationToken = default);

        /// <summary>What happened to a sandbox.</summary>
        Task<DiagnosticContent> GetDiagnosticEventsAsync(string sandboxId, string scope, CancellationToken cancellationToken = default);

        /// <summary>One page of the images that the server has.</summary>
        Task<ImageList> ListImagesAsync(int? page = null, int? pageSize = null, CancellationToken cancellationToken = default);

        /// <summary>An image by name or id.</summary>
        Task<StoredImage> GetImageAsync(string name, CancellationToken cancellationToken = default);

        /// <summary>Pulls an image from its registry.</summary>
        Task<StoredImage> PullImageAsync(PullImageRequest request, Func<PullProgress, Task>? onProgress = null, CancellationToken cancellationToken = default);

        /// <summary>Sends an image archive; name may be null when the archive has one.</summary>
        Task<StoredImage> ImportImageAsync(Stream archive, string? name = null, CancellationToken cancellationToken = default);

        /// <summary>An image as an OCI archive; dispose the stream.</summary>
        Task<Stream> ExportImageAsync(string name, CancellationToken cancellationToken = default);

        /// <summary>Removes an image that no sandbox uses.</summary>
        Task DeleteImageAsync(string name, CancellationToken cancellationToken = default);

        /// <summary>Makes a pool of sandboxes that are ready to be claimed.</summary>
        Task<Pool> CreatePoolAsync(CreatePoolRequest request, CancellationToken cancellationToken = default);

        /// <summary>A pool.</summary>
        Task<Pool> GetPoolAsync(string name, CancellationToken cancellationToken = default);

        /// <summary>All pools.</summary>
        Task<IReadOnlyList<Pool>> ListPoolsAsync(CancellationToken cancellationToken = default);

        /// <summary>Changes the capacity of a pool.</summary>
        Task<Pool> UpdatePoolAsync(string name, CapacitySpec capacity, CancellationToken cancellationToken = default);

        /// <summary>Removes a pool and the sandboxes that were not claimed.</summary>
        Task DeletePoolAsync(string name, CancellationToken cancellationToken = default);

        /// <summary>One page of named volumes.</summary>
        Task<NamedVolumeList> ListVolumesAsync(int? page = null, int? pageSize = null, CancellationToken cancellationToken = default);

        /// <summary>A named volume.</summary>
        Task<NamedVolume> GetVolumeAsync(string name, CancellationToken cancellationToken = default);

        /// <summary>Makes a named volume.</summary>
        Task<NamedVolume> CreateVolumeAsync(CreateVolumeRequest request, CancellationToken cancellationToken = default);

        /// <summary>Removes a named volume that no sandbox mounts.</summary>
        Task DeleteVolumeAsync(string name, CancellationToken cancellationToken = default);
    }

    /// <summary>Commands and shell sessions of a sandbox.</summary>
    public interface IExecdCommands
    {
        /// <summary>Runs a command and yields its events; leaving the loop cuts the stream.</summary>
        IAsyncEnumerable<ServerStreamEvent> RunStreamAsync(string command, RunCommandOptions? options = null, CancellationToken cancellationToken = default);

        /// <summary>Runs a command and follows it to its end; a background command returns at once.</summary>
        Task<Execution> RunAsync(string command, RunCommandOptions? options = null, ExecutionHandlers? handlers = null, CancellationToken cancellationToken = default);

        /// <summary>Ends a command.</summary>
        Task InterruptAsync(string executionId, CancellationToken cancellationToken = default);

        /// <summary>Whether a command runs, and how it ended.</summary>
        Task<CommandStatus> GetCommandStatusAsync(string executionId, CancellationToken cancellationToken = default);

        /// <summary>Output of a background command from cursor on.</summary>
        Task<CommandLogs> GetBackgroundCommandLogsAsync(string executionId, long? cursor = null, CancellationToken cancellationToken = default);

        /// <summary>Sends to the standard input of a command that was started with StdinOpen.</summary>
        Task WriteInputAsync(string executionId, Stream input, bool endOfInput = false, CancellationToken cancellationToken = default);

        /// <summary>Starts a shell that keeps its directory and variables between runs.</summary>
        Task<string> CreateSessionAsync(CreateSessionOptions? options = null, CancellationToken cancellationToken = default);

        /// <summary>Runs a command in a session.</summary>
        Task<Execution> RunInSessionAsync(string sessionId, string command, RunInSessionOptions? options = null, ExecutionHandlers? handlers = null, CancellationToken cancellationToken = default);

        /// <summary>Ends a session.</summary>
        Task DeleteSessionAsync(string sessionId, CancellationToken cancellationToken = default);
    }

    /// <summary>Files of a sandbox.</summary>
    public interface ISandboxFiles
    {
        /// <summary>What is at the paths, by path.</summary>
        Task<IReadOnlyDictionary<string, SandboxFileInfo>> GetFileInfoAsync(IEnumerable<string> paths, CancellationToken cancellationToken = default);

        /// <summary>Files below a directory whose names match a pattern.</summary>
        Task<IReadOnlyList<SandboxFileInfo>> SearchAsync(SearchEntry entry, CancellationToken cancellationToken = default);

        /// <summary>What is in a directory.</summary>
        Task<IReadOnlyList<SandboxFileInfo>> ListDirectoryAsync(string path, int? depth = null, CancellationToken cancellationToken = default);

        /// <summary>Makes directories and their parents.</summary>
        Task CreateDirectoriesAsync(IEnumerable<CreateDirectoryEntry> entries, CancellationToken cancellationToken = default);

        /// <summary>Removes directories with all that is in them.</summary>
        Task DeleteDirectoriesAsync(IEnumerable<string> paths, CancellationToken cancellationToken = default);

        /// <summary>Writes files in one request; streams are sent as they are read.</summary>
        Task WriteFilesAsync(IEnumerable<WriteEntry> entries, CancellationToken cancellationToken = default);

        /// <summary>Reads a file as text.</summary>
        Task<string> ReadFileAsync(string path, ReadFileOptions? options = null, CancellationToken cancellationToken = default);

        /// <summary>Reads a file.</summary>
        Task<byte[]> ReadBytesAsync(string path, ReadBytesOptions? options = null, CancellationToken cancellationToken = default);

        /// <summary>Yields a file piece by piece.</summary>
        IAsyncEnumerable<byte[]> ReadBytesStreamAsync(string path, ReadBytesOptions? options = null, CancellationToken cancellationToken = default);

        /// <summary>Removes files.</summary>
        Task DeleteFilesAsync(IEnumerable<string> paths, CancellationToken cancellationToken = default);

        /// <summary>Renames files and directories.</summary>
        Task MoveFilesAsync(IEnumerable<MoveEntry> entries, CancellationToken cancellationToken = default);

        /// <summary>Replaces text in files.</summary>
        Task ReplaceContentsAsync(IEnumerable<ContentReplaceEntry> entries, CancellationToken cancellationToken = default);

        /// <summary>The same, and tells how often.</summary>
        Task<IReadOnlyList<ContentReplaceResult>> ReplaceContentsDetailedAsync(IEnumerable<ContentReplaceEntry> entries, CancellationToken cancellationToken = default);

        /// <summary>Changes modes and owners.</summary>
        Task SetPermissionsAsync(IEnumerable<SetPermissionEntry> entries, CancellationToken cancellationToken = default);

        /// <summary>Unpacks a tar archive into a directory.</summary>
        Task UploadDirectoryAsync(string path, Stream tar, CancellationToken cancellationToken = default);

        /// <summary>A directory as a tar archive; dispose the stream.</summary>
        Task<Stream> DownloadDirectoryAsync(string path, CancellationToken cancellationToken = default);

        /// <summary>Yields every change below a directory until the loop is left.</summary>
        IAsyncEnumerable<WatchEvent> WatchAsync(string path, bool recursive = true, CancellationToken cancellationToken = default);
    }

    /// <summary>Whether execd answers.</summary>
    public interface IExecdHealth
    {
        /// <summary>True when it does; throws when it cannot be reached.</summary>
        Task<bool> PingAsync(CancellationToken cancellationToken = default);
    }

    /// <summary>What a sandbox uses.</summary>
    public interface IExecdMetrics
    {
        /// <summary>What it uses now.</summary>
        Task<SandboxMetrics> GetMetricsAsync(CancellationToken cancellationToken = default);

        /// <summary>Yields figures about once a second until the loop is left.</summary>
        IAsyncEnumerable<SandboxMetrics> WatchMetricsAsync(CancellationToken cancellationToken = default);
    }

    /// <summary>Network policy of a sandbox.</summary>
    public interface IEgress
    {
        /// <summary>The policy in force.</summary>
        Task<NetworkPolicy> GetPolicyAsync(CancellationToken cancellationToken = default);

        /// <summary>Merges rules into it: a rule replaces the one with the same target.</summary>
        Task PatchRulesAsync(IEnumerable<NetworkRule> rules, CancellationToken cancellationToken = default);

        /// <summary>Removes the rules of the targets.</summary>
        Task DeleteRulesAsync(IEnumerable<string> targets, CancellationToken cancellationToken = default);
    }

    /// <summary>Credentials of a sandbox that its code never sees.</summary>
    public interface ICredentialVault
    {
        /// <summary>Fills the vault.</summary>
        Task<CredentialVaultState> CreateAsync(IReadOnlyList<Credential> credentials, IReadOnlyList<CredentialBinding> bindings, CancellationToken cancellationToken = default);

        /// <summary>The vault without its secrets.</summary>
        Task<CredentialVaultState> GetAsync(CancellationToken cancellationToken = default);

        /// <summary>Changes the vault, all of it or nothing.</summary>
        Task<CredentialVaultState> PatchAsync(CredentialVaultPatchRequest request, CancellationToken cancellationToken = default);

        /// <summary>Empties the vault.</summary>
        Task DeleteAsync(CancellationToken cancellationToken = default);

        /// <summary>The credentials without their secrets.</summary>
        Task<IReadOnlyList<CredentialMetadata>> ListCredentialsAsync(CancellationToken cancellationToken = default);

        /// <summary>One of them.</summary>
        Task<CredentialMetadata> GetCredentialAsync(string name, CancellationToken cancellationToken = default);

        /// <summary>The bindings.</summary>
        Task<IReadOnlyList<CredentialBindingMetadata>> ListBindingsAsync(CancellationToken cancellationToken = default);

        /// <summary>One of them.</summary>
        Task<CredentialBindingMetadata> GetBindingAsync(string name, CancellationToken cancellationToken = default);
    }
}
