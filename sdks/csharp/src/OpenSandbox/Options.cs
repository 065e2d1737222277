using System;
using System.Collections.Generic;
using System.Threading.Tasks;
using OpenSandbox.Config;
using OpenSandbox.Factory;
using OpenSandbox.Models;

namespace OpenSandbox
{
    /// <summary>How a sandbox is reached and waited for.</summary>
    public abstract class SandboxReadyOptions
    {
        /// <summary>The connection; one from the environment unless given.</summary>
        public ConnectionConfig? ConnectionConfig { get; set; }

        /// <summary>Makes the services.</summary>
        public IAdapterFactory? AdapterFactory { get; set; }

        /// <summary>Whether the call returns before the sandbox answers.</summary>
        public bool SkipHealthCheck { get; set; }

        /// <summary>Replaces the ping of execd; an exception counts as "not yet".</summary>
        public Func<Sandbox, Task<bool>>? HealthCheck { get; set; }

        /// <summary>Seconds to wait; 30 unless given.</summary>
        public int? ReadyTimeoutSeconds { get; set; }

        /// <summary>The same as a duration; wins over ReadyTimeoutSeconds.</summary>
        public TimeSpan? ReadyTimeout { get; set; }

        /// <summary>Milliseconds between two questions; 200 unless given.</summary>
        public int? HealthCheckPollingInterval { get; set; }
    }

    /// <summary>What to create: exactly one of Image and SnapshotId.</summary>
    public class SandboxCreateOptions : SandboxReadyOptions
    {
        internal SandboxCreateOptions Copy() => (SandboxCreateOptions)MemberwiseClone();

        /// <summary>Name of the image.</summary>
        public string? Image { get; set; }

        /// <summary>Credentials of the image's registry.</summary>
        public ImageAuth? ImageAuth { get; set; }

        /// <summary>Snapshot to restore.</summary>
        public string? SnapshotId { get; set; }

        /// <summary>What the sandbox runs; waits unless given.</summary>
        public IReadOnlyList<string>? Entrypoint { get; set; }

        /// <summary>Environment variables.</summary>
        public IReadOnlyDictionary<string, string>? Env { get; set; }

        /// <summary>Labels of the sandbox.</summary>
        public IReadOnlyDictionary<string, string>? Metadata { get; set; }

        /// <summary>Which hosts it may reach.</summary>
        public NetworkPolicy? NetworkPolicy { get; set; }

        /// <summary>Whether credentials are put into its requests.</summary>
        public CredentialProxyConfig? CredentialProxy { get; set; }

        /// <summary>Secrets by variable, which the code inside never holds: it sees a placeholder, and requests to
        /// the secret's hosts over HTTPS carry the value. An extension.</summary>
        public IReadOnlyDictionary<string, Secret>? SecretEnv { get; set; }

        /// <summary>Makes the create safe to repeat: a second one with the key and the same options returns the
        /// sandbox of the first, for a day. The client then repeats it like a GET. An extension.</summary>
        public string? IdempotencyKey { get; set; }

        /// <summary>Operating system and architecture.</summary>
        public PlatformSpec? Platform { get; set; }

        /// <summary>Volumes to mount.</summary>
        public IReadOnlyList<Volume>? Volumes { get; set; }

        /// <summary>Fields that this server alone knows.</summary>
        public IReadOnlyDictionary<string, string>? Extensions { get; set; }

        /// <summary>Whether its ports need a token.</summary>
        public bool SecureAccess { get; set; }

        /// <summary>Limits; 1 cpu and 2Gi of memory unless given.</summary>
        public IReadOnlyDictionary<string, string>? Resource { get; set; }

        /// <summary>Seconds until it ends by itself; 600 unless given.</summary>
        public int? TimeoutSeconds { get; set; }

        /// <summary>Whether it never ends by itself.</summary>
        public bool ManualCleanup { get; set; }

        /// <summary>Whether its files stay when it is stopped; not every server offers it.</summary>
        public bool Persistent { get; set; }

        /// <summary>"delete" or, with Persistent, "stop".</summary>
        public string? OnExpiry { get; set; }
    }

    /// <summary>Which sandbox to connect to.</summary>
    public class SandboxConnectOptions : SandboxReadyOptions
    {
        /// <summary>Id of the sandbox.</summary>
        public string SandboxId { get; set; } = "";
    }

    /// <summary>How to wait for a sandbox that is resumed.</summary>
    public class SandboxResumeOptions : SandboxReadyOptions
    {
    }

    /// <summary>How to wait for a sandbox.</summary>
    public class WaitUntilReadyOptions
    {
        /// <summary>Seconds to wait.</summary>
        public int ReadyTimeoutSeconds { get; set; } = Core.Constants.DefaultReadyTimeoutSeconds;

        /// <summary>Milliseconds between two questions.</summary>
        public int PollingIntervalMillis { get; set; } = Core.Constants.DefaultHealthCheckPollingInterval;

        /// <summary>Replaces the ping of execd.</summary>
        public Func<Sandbox, Task<bool>>? HealthCheck { get; set; }
    }

    /// <summary>What a manager is made of.</summary>
    public class SandboxManagerOptions
    {
        /// <summary>The connection; one from the environment unless given.</summary>
        public ConnectionConfig? ConnectionConfig { get; set; }

        /// <summary>Makes the services.</summary>
        public IAdapterFactory? AdapterFactory { get; set; }
    }
}
