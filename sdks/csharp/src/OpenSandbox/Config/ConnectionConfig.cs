using System;
using System.Collections.Generic;
using System.Net;
using System.Net.Http;
using System.Threading;
using OpenSandbox.Core;

namespace OpenSandbox.Config
{
    /// <summary>How the server is spoken to.</summary>
    public enum ConnectionProtocol
    {
        /// <summary>Without TLS.</summary>
        Http,

        /// <summary>With TLS.</summary>
        Https,
    }

    /// <summary>Settings of a connection; what is null comes from the environment or is a default.</summary>
    public class ConnectionConfigOptions
    {
        /// <summary>host[:port], with or without a scheme and a path. OPEN_SANDBOX_DOMAIN.</summary>
        public string? Domain { get; set; }

        /// <summary>A scheme in Domain wins over it. OPEN_SANDBOX_PROTOCOL.</summary>
        public ConnectionProtocol? Protocol { get; set; }

        /// <summary>API key of the lifecycle API. OPEN_SANDBOX_API_KEY.</summary>
        public string? ApiKey { get; set; }

        /// <summary>Headers of every request.</summary>
        public IReadOnlyDictionary<string, string>? Headers { get; set; }

        /// <summary>Seconds that a request may take; 30 unless given.</summary>
        public int? RequestTimeoutSeconds { get; set; }

        /// <summary>Reach sandboxes through the server.</summary>
        public bool UseServerProxy { get; set; }

        /// <summary>The same as a duration; wins over RequestTimeoutSeconds.</summary>
        public TimeSpan? RequestTimeout { get; set; }

        /// <summary>How often a GET, PUT or DELETE is repeated after 429, 502, 503 or a broken connection.
        /// Other requests are repeated only when no connection could be made.</summary>
        public int MaxRetries { get; set; } = 3;

        /// <summary>Pause before the first repetition; the next ones take twice as long each.</summary>
        public TimeSpan RetryBackoff { get; set; } = TimeSpan.FromMilliseconds(200);

        /// <summary>How long the pings of a stream may stay away before it counts as broken.</summary>
        public TimeSpan StreamIdleTimeout { get; set; } = TimeSpan.FromSeconds(30);

        /// <summary>Sends requests in place of the SDK's own handler; the SDK does not dispose it.</summary>
        public HttpMessageHandler? HttpMessageHandler { get; set; }
    }

    /// <summary>A connection to a server; may be shared by sandboxes and managers of all threads.</summary>
    public class ConnectionConfig : IDisposable
    {
        private readonly Lazy<HttpClient> _client;

        /// <summary>Takes settings; those that are missing come from the environment.</summary>
        public ConnectionConfig(ConnectionConfigOptions? options = null)
        {
            options ??= new ConnectionConfigOptions();
            Options = options;
            ApiKey = options.ApiKey ?? FromEnvironment("OPEN_SANDBOX_API_KEY");
            Headers = options.Headers ?? new Dictionary<string, string>();
            RequestTimeout = options.RequestTimeout ?? TimeSpan.FromSeconds(
                options.RequestTimeoutSeconds ?? Constants.DefaultRequestTimeoutSeconds);
            UseServerProxy = options.UseServerProxy;
            if (RequestTimeout <= TimeSpan.Zero)
                throw new InvalidArgumentException("RequestTimeoutSeconds must be positive");
            if (options.StreamIdleTimeout <= TimeSpan.Zero)
                throw new InvalidArgumentException("StreamIdleTimeout must be positive");
            if (options.MaxRetries < 0)
                throw new InvalidArgumentException("MaxRetries must not be negative");
            Protocol = options.Protocol ?? ProtocolOf(FromEnvironment("OPEN_SANDBOX_PROTOCOL"));
            Domain = TakeScheme(options.Domain ?? FromEnvironment("OPEN_SANDBOX_DOMAIN") ??
                                "localhost:8080");
            _client = new Lazy<HttpClient>(CreateHttpClient, LazyThreadSafetyMode.ExecutionAndPublication);
        }

        internal ConnectionConfigOptions Options { get; }

        /// <summary>The protocol of the server, and of its sandboxes.</summary>
        public ConnectionProtocol Protocol { get; private set; }

        /// <summary>host[:port][/path] without a scheme.</summary>
        public string Domain { get; }

        /// <summary>The API key, which is sent to the lifecycle API only.</summary>
        public string? ApiKey { get; }

        /// <summary>Headers of every request.</summary>
        public IReadOnlyDictionary<string, string> Headers { get; }

        /// <summary>Seconds that a request may take.</summary>
        public int RequestTimeoutSeconds => (int)Math.Ceiling(RequestTimeout.TotalSeconds);

        /// <summary>The same, exactly.</summary>
        public TimeSpan RequestTimeout { get; }

        /// <summary>Whether sandboxes are reached through the server.</summary>
        public bool UseServerProxy { get; }

        /// <summary>"OpenSandbox-CSharp-SDK/" and the version.</summary>
        public string UserAgent { get; } = "OpenSandbox-CSharp-SDK/" +
            (typeof(ConnectionConfig).Assembly.GetName().Version?.ToString(3) ?? "0");

        /// <summary>"http" or "https".</summary>
        public string Scheme => Protocol == ConnectionProtocol.Https ? "https" : "http";

        /// <summary>Address of the lifecycle API.</summary>
        public string GetBaseUrl() => $"{Scheme}://{Domain}/v1";

        /// <summary>The client of this connection, made at the first call.</summary>
        public HttpClient GetHttpClient() => _client.Value;

        /// <summary>A new client with the settings of this connection.</summary>
        public HttpClient CreateHttpClient()
        {
            var own = Options.HttpMessageHandler == null;
            var handler = Options.HttpMessageHandler ?? new SocketsHttpHandler
            {
                AutomaticDecompression = DecompressionMethods.None,
                PooledConnectionIdleTimeout = TimeSpan.FromSeconds(30),
                MaxConnectionsPerServer = 100,
                AllowAutoRedirect = false,
                // The connection of a stream that is left early closes in the call that leaves it. With any
                // other time a timer closes it, some time later: streams of metrics and watches never end.
                ResponseDrainTimeout = TimeSpan.Zero,
            };
            return new HttpClient(handler, own) { Timeout = Timeout.InfiniteTimeSpan };
        }

        /// <summary>The same; streams have no time limit in any client of the SDK.</summary>
        public HttpClient CreateSseHttpClient() => CreateHttpClient();

        /// <summary>Closes idle connections.</summary>
        public void Dispose()
        {
            if (_client.IsValueCreated)
                _client.Value.Dispose();
        }

        private static string? FromEnvironment(string name)
        {
            var value = Environment.GetEnvironmentVariable(name);
            return string.IsNullOrEmpty(value) ? null : value;
        }

        private static ConnectionProtocol ProtocolOf(string? name)
        {
            switch (name?.ToLowerInvariant())
            {
                case null:
                case "http": return ConnectionProtocol.Http;
                case "https": return ConnectionProtocol.Https;
                default:
                    throw new InvalidArgumentException(
                        $"OPEN_SANDBOX_PROTOCOL must be http or https, not '{name}'");
            }
        }

        private string TakeScheme(string domain)
        {
            var at = domain.IndexOf("://", StringComparison.Ordinal);
            if (at >= 0)
            {
                Protocol = ProtocolOf(domain.Substring(0, at));
                domain = domain.Substring(at + 3);
            }
            domain = domain.TrimEnd('/');
            if (domain.EndsWith("/v1", StringComparison.Ordinal))
                domain = domain.Substring(0, domain.Length - 3);
            InvalidArgumentException.NeedText(domain, "Domain");
            return domain;
        }
    }
}
