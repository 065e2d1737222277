using System;
using System.Collections.Generic;
using System.Threading;
using System.Threading.Tasks;
using OpenSandbox.Adapters;
using OpenSandbox.Config;
using OpenSandbox.Internal;
using OpenSandbox.Services;

namespace OpenSandbox.Factory
{
    /// <summary>What a lifecycle stack is made of.</summary>
    public class CreateLifecycleStackOptions
    {
        /// <summary>The connection.</summary>
        public ConnectionConfig ConnectionConfig { get; set; } = default!;

        /// <summary>Address of the lifecycle API.</summary>
        public string LifecycleBaseUrl { get; set; } = "";
    }

    /// <summary>What an execd stack is made of.</summary>
    public class CreateExecdStackOptions
    {
        /// <summary>The connection.</summary>
        public ConnectionConfig ConnectionConfig { get; set; } = default!;

        /// <summary>Address of execd.</summary>
        public string ExecdBaseUrl { get; set; } = "";

        /// <summary>Headers of the endpoint.</summary>
        public IReadOnlyDictionary<string, string>? ExecdHeaders { get; set; }
    }

    /// <summary>Where an egress engine is.</summary>
    public class EgressAddress
    {
        /// <summary>Address of the egress API.</summary>
        public string BaseUrl { get; set; } = "";

        /// <summary>Headers of the endpoint.</summary>
        public IReadOnlyDictionary<string, string>? Headers { get; set; }
    }

    /// <summary>What an egress stack is made of.</summary>
    public class CreateEgressStackOptions
    {
        /// <summary>The connection.</summary>
        public ConnectionConfig ConnectionConfig { get; set; } = default!;

        /// <summary>Finds the address; called once, when it is first needed.</summary>
        public Func<CancellationToken, Task<EgressAddress>> Resolve { get; set; } = default!;
    }

    /// <summary>Services of the lifecycle API.</summary>
    public class LifecycleStack
    {
        /// <summary>Sandboxes.</summary>
        public ISandboxes Sandboxes { get; set; } = default!;
    }

    /// <summary>Services of execd.</summary>
    public class ExecdStack
    {
        /// <summary>Commands.</summary>
        public IExecdCommands Commands { get; set; } = default!;

        /// <summary>Files.</summary>
        public ISandboxFiles Files { get; set; } = default!;

        /// <summary>Health.</summary>
        public IExecdHealth Health { get; set; } = default!;

        /// <summary>Metrics.</summary>
        public IExecdMetrics Metrics { get; set; } = default!;

        /// <summary>Isolated sessions.</summary>
        public IIsolation Isolation { get; set; } = default!;
    }

    /// <summary>Services of the egress engine.</summary>
    public class EgressStack
    {
        /// <summary>Network policy.</summary>
        public IEgress Egress { get; set; } = default!;

        /// <summary>Credential vault.</summary>
        public ICredentialVault CredentialVault { get; set; } = default!;
    }

    /// <summary>Makes the services; give another one to replace HTTP, in tests say.</summary>
    public interface IAdapterFactory
    {
        /// <summary>Makes the lifecycle services.</summary>
        LifecycleStack CreateLifecycleStack(CreateLifecycleStackOptions options);

        /// <summary>Makes the execd services.</summary>
        ExecdStack CreateExecdStack(CreateExecdStackOptions options);

        /// <summary>Makes the egress services.</summary>
        EgressStack CreateEgressStack(CreateEgressStackOptions options);
    }

    /// <summary>The services over HTTP.</summary>
    public sealed class DefaultAdapterFactory : IAdapterFactory
    {
        /// <inheritdoc/>
        public LifecycleStack CreateLifecycleStack(CreateLifecycleStackOptions options)
        {
            var config = options.ConnectionConfig;
            var api = new Api(config, options.LifecycleBaseUrl, null, config.ApiKey);
            return new LifecycleStack { Sandboxes = new SandboxesAdapter(api) };
        }

        /// <inheritdoc/>
        public ExecdStack CreateExecdStack(CreateExecdStackOptions options)
        {
            var api = new Api(options.ConnectionConfig, options.ExecdBaseUrl, options.ExecdHeaders);
            var state = new ExecdStateAdapter(api);
            return new ExecdStack
            {
                Commands = new CommandsAdapter(api), Files = new FilesAdapter(api), Health = state,
                Metrics = state, Isolation = new IsolationAdapter(api),
            };
        }

        /// <inheritdoc/>
        public EgressStack CreateEgressStack(CreateEgressStackOptions options)
        {
            var adapter = new EgressAdapter(async ct =>
            {
                var address = await options.Resolve(ct).ConfigureAwait(false);
                return new Api(options.ConnectionConfig, address.BaseUrl, address.Headers);
            });
            return new EgressStack { Egress = adapter, CredentialVault = adapter };
        }
    }
}
