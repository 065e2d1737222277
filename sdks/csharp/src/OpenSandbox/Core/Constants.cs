using System.Collections.Generic;

namespace OpenSandbox.Core
{
    /// <summary>Defaults of the SDK.</summary>
    public static class Constants
    {
        /// <summary>Port of execd, the daemon inside a sandbox.</summary>
        public const int DefaultExecdPort = 44772;

        /// <summary>Port of the network policy and the credential vault of a sandbox.</summary>
        public const int DefaultEgressPort = 18080;

        /// <summary>Seconds until a sandbox ends by itself.</summary>
        public const int DefaultTimeoutSeconds = 600;

        /// <summary>Seconds that a call waits for a sandbox to answer.</summary>
        public const int DefaultReadyTimeoutSeconds = 30;

        /// <summary>Milliseconds between two questions whether a sandbox answers.</summary>
        public const int DefaultHealthCheckPollingInterval = 200;

        /// <summary>Seconds that one request may take; streams have no limit.</summary>
        public const int DefaultRequestTimeoutSeconds = 30;

        /// <summary>What a sandbox runs when nothing was given: it waits.</summary>
        public static IReadOnlyList<string> DefaultEntrypoint { get; } =
            new[] { "tail", "-f", "/dev/null" };

        /// <summary>Limits of a sandbox that was created without any.</summary>
        public static IReadOnlyDictionary<string, string> DefaultResourceLimits { get; } =
            new Dictionary<string, string> { ["cpu"] = "1", ["memory"] = "2Gi" };
    }
}
