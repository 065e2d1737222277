using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.Globalization;
using System.Linq;
using System.Threading;
using System.Threading.Tasks;
using OpenSandbox.Config;
using OpenSandbox.Core;
using OpenSandbox.Factory;
using OpenSandbox.Models;
using OpenSandbox.Services;

namespace OpenSandbox
{
    /// <summary>A sandbox that this program created or connected to. Disposing it frees local resources;
    /// the sandbox goes on until KillAsync or its time is over.</summary>
    public sealed class Sandbox : IAsyncDisposable
    {
        private static readonly TimeSpan CleanupLimit = TimeSpan.FromSeconds(10);
        private readonly IAdapterFactory _factory;
        private readonly bool _ownsConfig;
        private readonly IEgress _egress;
        private ExecdStack _execd = default!;

        private Sandbox(string id, ConnectionConfig? config, IAdapterFactory? factory)
        {
            Id = id;
            _ownsConfig = config == null;
            ConnectionConfig = config ?? new ConnectionConfig();
            _factory = factory ?? new DefaultAdapterFactory();
            Sandboxes = _factory.CreateLifecycleStack(new CreateLifecycleStackOptions
            {
                ConnectionConfig = ConnectionConfig, LifecycleBaseUrl = ConnectionConfig.GetBaseUrl(),
            }).Sandboxes;
            var egress = _factory.CreateEgressStack(new CreateEgressStackOptions
            {
                ConnectionConfig = ConnectionConfig,
                Resolve = async ct =>
                {
                    var endpoint = await GetEndpointAsync(Constants.DefaultEgressPort, ct)
                        .ConfigureAwait(false);
                    return new EgressAddress { BaseUrl = UrlOf(endpoint), Headers = endpoint.Headers };
                },
            });
            _egress = egress.Egress;
            CredentialVault = egress.CredentialVault;
        }

        /// <summary>Id of the sandbox.</summary>
        public string Id { get; private set; }

        /// <summary>The connection.</summary>
        public ConnectionConfig ConnectionConfig { get; }

        /// <summary>The lifecycle API.</summary>
        public ISandboxes Sandboxes { get; }

        /// <summary>Commands and sessions.</summary>
        public IExecdCommands Commands => _execd.Commands;

        /// <summary>Files.</summary>
        public ISandboxFiles Files => _execd.Files;

        /// <summary>Files as another user of the sandbox sees them.</summary>
        public ISandboxFiles FilesAs(int uid, int gid) =>
            _factory.CreateExecdStack(new CreateExecdStackOptions
            {
                ConnectionConfig = ConnectionConfig, ExecdHeaders = ExecdEndpoint.Headers,
                ExecdBaseUrl = $"{UrlOf(ExecdEndpoint)}/v1/filesystem/{uid}/{gid}",
            }).Files;

        /// <summary>Health.</summary>
        public IExecdHealth Health => _execd.Health;

        /// <summary>Metrics.</summary>
        public IExecdMetrics Metrics => _execd.Metrics;

        /// <summary>Isolated sessions: sandboxes inside the sandbox.</summary>
        public IIsolation Isolation => _execd.Isolation;

        /// <summary>Credentials that the sandbox's code never sees.</summary>
        public ICredentialVault CredentialVault { get; }

        /// <summary>Address of execd, and the headers that requests to it need.</summary>
        public Endpoint ExecdEndpoint { get; private set; } = new Endpoint();

        /// <summary>Creates a sandbox and waits until it answers. One that fails in the meantime is an
        /// exception with the server's reason, and is deleted.</summary>
        public static async Task<Sandbox> CreateAsync(SandboxCreateOptions options,
                                                      CancellationToken cancellationToken = default)
        {
            var request = RequestOf(options);
            var sandbox = new Sandbox("", options.ConnectionConfig, options.AdapterFactory);
            try
            {
                var info = await sandbox.Sandboxes.CreateSandboxAsync(request, cancellationToken)
                    .ConfigureAwait(false);
                sandbox.Id = info.Id;
                await sandbox.OpenAsync(options, info, cancellationToken).ConfigureAwait(false);
                return sandbox;
            }
            catch (Exception)
            {
                await sandbox.DiscardAsync().ConfigureAwait(false);
                throw;
            }
        }

        /// <summary>Returns a sandbox by its id once it answers.</summary>
        public static async Task<Sandbox> ConnectAsync(SandboxConnectOptions options,
                                                       CancellationToken cancellationToken = default)
        {
            InvalidArgumentException.NeedText(options.SandboxId, "SandboxId");
            var sandbox = new Sandbox(options.SandboxId, options.ConnectionConfig, options.AdapterFactory);
            try
            {
                await sandbox.OpenAsync(options, null, cancellationToken).ConfigureAwait(false);
                return sandbox;
            }
            catch (Exception)
            {
                await sandbox.DisposeAsync().ConfigureAwait(false);
                throw;
            }
        }

        /// <summary>Lets a paused sandbox go on and returns it once it answers.</summary>
        public static async Task<Sandbox> ResumeAsync(SandboxConnectOptions options,
                                                      CancellationToken cancellationToken = default)
        {
            InvalidArgumentException.NeedText(options.SandboxId, "SandboxId");
            await using (var paused = new Sandbox(options.SandboxId, options.ConnectionConfig,
                                                  options.AdapterFactory))
                await paused.Sandboxes.ResumeSandboxAsync(options.SandboxId, cancellationToken)
                    .ConfigureAwait(false);
            return await ConnectAsync(options, cancellationToken).ConfigureAwait(false);
        }

        /// <summary>Lets this sandbox go on and returns a new object of it.</summary>
        public Task<Sandbox> ResumeAsync(SandboxResumeOptions? options = null,
                                         CancellationToken cancellationToken = default) =>
            ResumeAsync(new SandboxConnectOptions
            {
                SandboxId = Id,
                ConnectionConfig = options?.ConnectionConfig ?? ConnectionConfig,
                AdapterFactory = options?.AdapterFactory ?? _factory,
                SkipHealthCheck = options?.SkipHealthCheck ?? false,
                HealthCheck = options?.HealthCheck,
                ReadyTimeoutSeconds = options?.ReadyTimeoutSeconds,
                ReadyTimeout = options?.ReadyTimeout,
                HealthCheckPollingInterval = options?.HealthCheckPollingInterval,
            }, cancellationToken);

        private static CreateSandboxRequest RequestOf(SandboxCreateOptions o)
        {
            if (string.IsNullOrWhiteSpace(o.Image) == string.IsNullOrWhiteSpace(o.SnapshotId))
                throw new InvalidArgumentException("Image or SnapshotId must be set, not both");
            if (o.TimeoutSeconds <= 0)
                throw new InvalidArgumentException("TimeoutSeconds must be positive");
            if (o.TimeoutSeconds != null && o.ManualCleanup)
                throw new InvalidArgumentException("ManualCleanup and TimeoutSeconds exclude each other");
            if (o.SnapshotId != null && o.Entrypoint != null)
                throw new InvalidArgumentException("a snapshot has its own entrypoint: leave Entrypoint out");
            foreach (var volume in o.Volumes ?? Array.Empty<Volume>())
                Check(volume);
            return new CreateSandboxRequest
            {
                Image = o.Image == null ? null : new ImageSpec { Uri = o.Image, Auth = o.ImageAuth },
                SnapshotId = o.SnapshotId,
                Entrypoint = o.SnapshotId != null ? null : o.Entrypoint ?? Constants.DefaultEntrypoint,
                Timeout = o.ManualCleanup ? (int?)null : o.TimeoutSeconds ?? Constants.DefaultTimeoutSeconds,
                ResourceLimits = o.Resource ?? Constants.DefaultResourceLimits,
                Env = o.Env, Metadata = o.Metadata, NetworkPolicy = o.NetworkPolicy,
                CredentialProxy = o.CredentialProxy, SecretEnv = o.SecretEnv, Platform = o.Platform,
                Volumes = o.Volumes, IdempotencyKey = o.IdempotencyKey,
                Extensions = o.Extensions, SecureAccess = o.SecureAccess ? true : (bool?)null,
                Persistent = o.Persistent ? true : (bool?)null, OnExpiry = o.OnExpiry,
            };
        }

        private static void Check(Volume v)
        {
            InvalidArgumentException.NeedText(v.Name, "the name of a volume");
            if (new object?[] { v.Host, v.PVC, v.OSSFS }.Count(backend => backend != null) != 1)
                throw new InvalidArgumentException($"volume {v.Name} needs one of Host, PVC and OSSFS");
            if (!v.MountPath.StartsWith("/", StringComparison.Ordinal))
                throw new InvalidArgumentException($"volume {v.Name} needs an absolute MountPath");
        }

        private async Task OpenAsync(SandboxReadyOptions options, SandboxInfo? info, CancellationToken ct)
        {
            var limit = options.ReadyTimeout ?? TimeSpan.FromSeconds(
                options.ReadyTimeoutSeconds ?? Constants.DefaultReadyTimeoutSeconds);
            var clock = Stopwatch.StartNew();
            if (info != null)
                ThrowIfEnded(info);
            ExecdEndpoint = await GetEndpointAsync(Constants.DefaultExecdPort, ct).ConfigureAwait(false);
            _execd = _factory.CreateExecdStack(new CreateExecdStackOptions
            {
                ConnectionConfig = ConnectionConfig, ExecdBaseUrl = UrlOf(ExecdEndpoint),
                ExecdHeaders = ExecdEndpoint.Headers,
            });
            if (!options.SkipHealthCheck)
                await WaitAsync(clock, limit, options.HealthCheckPollingInterval ??
                    Constants.DefaultHealthCheckPollingInterval, options.HealthCheck, ct)
                    .ConfigureAwait(false);
        }

        private void ThrowIfEnded(SandboxInfo info)
        {
            var status = info.Status;
            if (status.State == SandboxStates.Failed || status.State == SandboxStates.Terminated)
                throw new SandboxUnhealthyException(
                    $"sandbox {Id} is {status.State}: {status.Reason} {status.Message}".TrimEnd());
        }

        private string UrlOf(Endpoint endpoint) => $"{ConnectionConfig.Scheme}://{endpoint.EndpointAddress}";

        /// <summary>Deletes what CreateAsync made and cannot return.</summary>
        private async Task DiscardAsync()
        {
            if (Id.Length > 0)
            {
                try
                {
                    using var limit = new CancellationTokenSource(CleanupLimit);
                    await Sandboxes.DeleteSandboxAsync(Id, limit.Token).ConfigureAwait(false);
                }
                catch (Exception e) when (e is SandboxException || e is OperationCanceledException)
                {
                    // The first error counts; the sandbox ends by its timeout.
                }
            }
            await DisposeAsync().ConfigureAwait(false);
        }

        /// <summary>Waits until the sandbox answers; fails at once when it has ended.</summary>
        public Task WaitUntilReadyAsync(WaitUntilReadyOptions options,
                                        CancellationToken cancellationToken = default) =>
            WaitAsync(Stopwatch.StartNew(), TimeSpan.FromSeconds(options.ReadyTimeoutSeconds),
                      options.PollingIntervalMillis, options.HealthCheck, cancellationToken);

        private async Task WaitAsync(Stopwatch clock, TimeSpan limit, int interval,
                                     Func<Sandbox, Task<bool>>? check, CancellationToken ct)
        {
            Exception? last = null;
            for (var n = 1; ; n++)
            {
                try
                {
                    var ok = check == null ? await Health.PingAsync(ct).ConfigureAwait(false)
                                           : await check(this).ConfigureAwait(false);
                    if (ok)
                        return;
                    last = null;
                }
                catch (Exception e) when (!ct.IsCancellationRequested)
                {
                    last = e;
                }
                await CheckNotEndedAsync(ct).ConfigureAwait(false);
                if (clock.Elapsed >= limit)
                    throw NotReady(limit, n, last);
                await Task.Delay(interval, ct).ConfigureAwait(false);
            }
        }

        private async Task CheckNotEndedAsync(CancellationToken ct)
        {
            try
            {
                ThrowIfEnded(await GetInfoAsync(ct).ConfigureAwait(false));
            }
            catch (Exception e) when (!(e is SandboxUnhealthyException) && !ct.IsCancellationRequested)
            {
                // The server did not tell; the health check decides.
            }
        }

        private SandboxReadyTimeoutException NotReady(TimeSpan limit, int attempts, Exception? last)
        {
            var why = last?.Message ?? "the health check kept returning false";
            return new SandboxReadyTimeoutException(
                $"sandbox {Id} did not answer within {limit.TotalSeconds} s ({attempts} attempts): {why}; " +
                $"domain {ConnectionConfig.Domain}, UseServerProxy {ConnectionConfig.UseServerProxy}. " +
                "If this program cannot reach sandboxes directly, set UseServerProxy, or [docker].host_ip " +
                "on the server.", last);
        }

        /// <summary>What the server knows of the sandbox.</summary>
        public Task<SandboxInfo> GetInfoAsync(CancellationToken cancellationToken = default) =>
            Sandboxes.GetSandboxAsync(Id, cancellationToken);

        /// <summary>Changes keys of the metadata.</summary>
        public Task<SandboxInfo> PatchMetadataAsync(SandboxMetadataPatch patch,
                                                    CancellationToken cancellationToken = default) =>
            Sandboxes.PatchSandboxMetadataAsync(Id, patch, cancellationToken);

        /// <summary>Whether the sandbox answers; never throws for a sandbox that does not.</summary>
        public async Task<bool> IsHealthyAsync(CancellationToken cancellationToken = default)
        {
            try
            {
                return await Health.PingAsync(cancellationToken).ConfigureAwait(false);
            }
            catch (SandboxException)
            {
                return false;
            }
        }

        /// <summary>What the sandbox uses now.</summary>
        public Task<SandboxMetrics> GetMetricsAsync(CancellationToken cancellationToken = default) =>
            Metrics.GetMetricsAsync(cancellationToken);

        /// <summary>Freezes the sandbox.</summary>
        public Task PauseAsync(CancellationToken cancellationToken = default) =>
            Sandboxes.PauseSandboxAsync(Id, cancellationToken);

        /// <summary>Ends the sandbox for good.</summary>
        public Task KillAsync(CancellationToken cancellationToken = default) =>
            Sandboxes.DeleteSandboxAsync(Id, cancellationToken);

        /// <summary>Makes the sandbox end this many seconds from now.</summary>
        public Task<RenewSandboxExpirationResponse> RenewAsync(int timeoutSeconds,
                                                               CancellationToken cancellationToken = default) =>
            Renew(Sandboxes, Id, timeoutSeconds, cancellationToken);

        internal static Task<RenewSandboxExpirationResponse> Renew(ISandboxes sandboxes, string id,
            int timeoutSeconds, CancellationToken ct)
        {
            if (timeoutSeconds <= 0)
                throw new InvalidArgumentException("timeoutSeconds must be positive");
            var at = DateTime.UtcNow.AddSeconds(timeoutSeconds);
            return sandboxes.RenewSandboxExpirationAsync(id, new RenewSandboxExpirationRequest
            {
                ExpiresAt = at.ToString("yyyy-MM-ddTHH:mm:ss.fffZ", CultureInfo.InvariantCulture),
            }, ct);
        }

        /// <summary>Asks for a snapshot of the sandbox's files.</summary>
        public Task<SnapshotInfo> CreateSnapshotAsync(string? name = null,
                                                      CancellationToken cancellationToken = default) =>
            Sandboxes.CreateSnapshotAsync(Id, name, cancellationToken);

        /// <summary>The same with the memory of its processes.</summary>
        public Task<SnapshotInfo> CreateMemorySnapshotAsync(string? name = null,
            CancellationToken cancellationToken = default) =>
            Sandboxes.CreateMemorySnapshotAsync(Id, name, cancellationToken);

        /// <summary>Makes sandboxes of this one's files and returns them once they answer.</summary>
        public async Task<IReadOnlyList<Sandbox>> ForkAsync(ForkRequest request,
                                                            CancellationToken cancellationToken = default)
        {
            var infos = await Sandboxes.ForkSandboxAsync(Id, request, cancellationToken)
                .ConfigureAwait(false);
            return await Task.WhenAll(infos.Select(async info =>
            {
                var fork = new Sandbox(info.Id, ConnectionConfig, _factory);
                await fork.OpenAsync(new SandboxConnectOptions(), info, cancellationToken)
                    .ConfigureAwait(false);
                return fork;
            })).ConfigureAwait(false);
        }

        /// <summary>Returns this sandbox to the files of a snapshot.</summary>
        public Task<SandboxInfo> RollbackAsync(string snapshotId,
                                               CancellationToken cancellationToken = default) =>
            Sandboxes.RollbackSandboxAsync(Id, snapshotId, cancellationToken);

        /// <summary>The network policy in force.</summary>
        public Task<NetworkPolicy> GetEgressPolicyAsync(CancellationToken cancellationToken = default) =>
            _egress.GetPolicyAsync(cancellationToken);

        /// <summary>Merges rules into the policy.</summary>
        public Task PatchEgressRulesAsync(IEnumerable<NetworkRule> rules,
                                          CancellationToken cancellationToken = default) =>
            _egress.PatchRulesAsync(rules, cancellationToken);

        /// <summary>Removes the rules of the targets.</summary>
        public Task DeleteEgressRulesAsync(IEnumerable<string> targets,
                                           CancellationToken cancellationToken = default) =>
            _egress.DeleteRulesAsync(targets, cancellationToken);

        /// <summary>Address of a port; it has no scheme.</summary>
        public Task<Endpoint> GetEndpointAsync(int port, CancellationToken cancellationToken = default) =>
            Sandboxes.GetSandboxEndpointAsync(Id, port, ConnectionConfig.UseServerProxy, null,
                                              cancellationToken);

        /// <summary>Address that works without headers until expires, in seconds since 1970.</summary>
        public Task<Endpoint> GetSignedEndpointAsync(int port, long expires,
                                                     CancellationToken cancellationToken = default) =>
            Sandboxes.GetSandboxEndpointAsync(Id, port, ConnectionConfig.UseServerProxy, expires,
                                              cancellationToken);

        /// <summary>URL of a port.</summary>
        public async Task<string> GetEndpointUrlAsync(int port,
                                                      CancellationToken cancellationToken = default) =>
            UrlOf(await GetEndpointAsync(port, cancellationToken).ConfigureAwait(false));

        /// <summary>Fills the credential vault.</summary>
        public Task<CredentialVaultState> CreateCredentialVaultAsync(IReadOnlyList<Credential> credentials,
            IReadOnlyList<CredentialBinding> bindings, CancellationToken cancellationToken = default) =>
            CredentialVault.CreateAsync(credentials, bindings, cancellationToken);

        /// <summary>The vault without its secrets.</summary>
        public Task<CredentialVaultState> GetCredentialVaultAsync(
            CancellationToken cancellationToken = default) => CredentialVault.GetAsync(cancellationToken);

        /// <summary>Changes the vault, all of it or nothing.</summary>
        public Task<CredentialVaultState> PatchCredentialVaultAsync(CredentialVaultPatchRequest request,
            CancellationToken cancellationToken = default) =>
            CredentialVault.PatchAsync(request, cancellationToken);

        /// <summary>Empties the vault.</summary>
        public Task DeleteCredentialVaultAsync(CancellationToken cancellationToken = default) =>
            CredentialVault.DeleteAsync(cancellationToken);

        /// <summary>The credentials without their secrets.</summary>
        public Task<IReadOnlyList<CredentialMetadata>> ListCredentialVaultCredentialsAsync(
            CancellationToken cancellationToken = default) =>
            CredentialVault.ListCredentialsAsync(cancellationToken);

        /// <summary>One of them.</summary>
        public Task<CredentialMetadata> GetCredentialVaultCredentialAsync(string name,
            CancellationToken cancellationToken = default) =>
            CredentialVault.GetCredentialAsync(name, cancellationToken);

        /// <summary>The bindings.</summary>
        public Task<IReadOnlyList<CredentialBindingMetadata>> ListCredentialVaultBindingsAsync(
            CancellationToken cancellationToken = default) =>
            CredentialVault.ListBindingsAsync(cancellationToken);

        /// <summary>One of them.</summary>
        public Task<CredentialBindingMetadata> GetCredentialVaultBindingAsync(string name,
            CancellationToken cancellationToken = default) =>
            CredentialVault.GetBindingAsync(name, cancellationToken);

        /// <summary>Makes a terminal and connects to it.</summary>
        public Task<Pty> OpenPtyAsync(PtyOptions? options = null,
                                      CancellationToken cancellationToken = default) =>
            Pty.OpenAsync(ConnectionConfig, UrlOf(ExecdEndpoint), ExecdEndpoint.Headers, options,
                          cancellationToken);

        /// <summary>Frees local resources; the sandbox goes on.</summary>
        public ValueTask DisposeAsync()
        {
            if (_ownsConfig)
                ConnectionConfig.Dispose();
            return default;
        }
    }
}
