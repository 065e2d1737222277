using System;
using System.Collections.Generic;
using System.Linq;
using System.Net.Http;
using System.Text.Json.Serialization;
using System.Threading;
using System.Threading.Tasks;
using OpenSandbox.Core;
using OpenSandbox.Internal;
using OpenSandbox.Models;
using OpenSandbox.Services;

namespace OpenSandbox.Adapters
{
    /// <summary>Network policy and credential vault over HTTP; finds their address when first used.</summary>
    internal sealed class EgressAdapter : IEgress, ICredentialVault
    {
        private static readonly HttpMethod Patch = new HttpMethod("PATCH");
        private const string Vault = "/credential-vault";
        private readonly Func<CancellationToken, Task<Api>> _open;
        private Api? _api;

        internal EgressAdapter(Func<CancellationToken, Task<Api>> open) => _open = open;

        private async Task<T> AskAsync<T>(HttpMethod method, string path, object? body,
                                          CancellationToken ct) where T : class
        {
            var api = _api ??= await _open(ct).ConfigureAwait(false);
            return await api.AskAsync<T>(method, path, body, ct).ConfigureAwait(false);
        }

        private async Task DoAsync(HttpMethod method, string path, object? body, CancellationToken ct)
        {
            var api = _api ??= await _open(ct).ConfigureAwait(false);
            await api.DoAsync(method, path, body, ct).ConfigureAwait(false);
        }

        public async Task<NetworkPolicy> GetPolicyAsync(CancellationToken ct) =>
            (await AskAsync<EgressPolicyStatus>(HttpMethod.Get, "/policy", null, ct)
                 .ConfigureAwait(false)).Policy ??
            throw new SandboxInternalException("GET /policy: the answer has no policy");

        public Task PatchRulesAsync(IEnumerable<NetworkRule> rules, CancellationToken ct) =>
            DoAsync(Patch, "/policy", Checked(rules.ToList()), ct);

        private static List<NetworkRule> Checked(List<NetworkRule> rules)
        {
            foreach (var rule in rules)
                InvalidArgumentException.NeedText(rule.Target, "the target of a rule");
            return rules;
        }

        public Task DeleteRulesAsync(IEnumerable<string> targets, CancellationToken ct) =>
            DoAsync(HttpMethod.Delete, "/policy", targets.ToList(), ct);

        public Task<CredentialVaultState> CreateAsync(IReadOnlyList<Credential> credentials,
            IReadOnlyList<CredentialBinding> bindings, CancellationToken ct) =>
            AskAsync<CredentialVaultState>(HttpMethod.Post, Vault, new CredentialVaultCreateRequest
                { Credentials = credentials, Bindings = bindings }, ct);

        public Task<CredentialVaultState> GetAsync(CancellationToken ct) =>
            AskAsync<CredentialVaultState>(HttpMethod.Get, Vault, null, ct);

        public Task<CredentialVaultState> PatchAsync(CredentialVaultPatchRequest request,
                                                     CancellationToken ct) =>
            AskAsync<CredentialVaultState>(Patch, Vault, request, ct);

        public Task DeleteAsync(CancellationToken ct) => DoAsync(HttpMethod.Delete, Vault, null, ct);

        public async Task<IReadOnlyList<CredentialMetadata>> ListCredentialsAsync(CancellationToken ct) =>
            (await AskAsync<Credentials>(HttpMethod.Get, Vault + "/credentials", null, ct)
                .ConfigureAwait(false)).Items;

        public Task<CredentialMetadata> GetCredentialAsync(string name, CancellationToken ct) =>
            AskAsync<CredentialMetadata>(HttpMethod.Get,
                Vault + Api.Path($"/credentials/{name}"), null, ct);

        public async Task<IReadOnlyList<CredentialBindingMetadata>> ListBindingsAsync(
            CancellationToken ct) =>
            (await AskAsync<Bindings>(HttpMethod.Get, Vault + "/bindings", null, ct)
                .ConfigureAwait(false)).Items;

        public Task<CredentialBindingMetadata> GetBindingAsync(string name, CancellationToken ct) =>
            AskAsync<CredentialBindingMetadata>(HttpMethod.Get,
                Vault + Api.Path($"/bindings/{name}"), null, ct);

        private sealed class Credentials
        {
            [JsonPropertyName("credentials")]
            public IReadOnlyList<CredentialMetadata> Items { get; set; } =
                Array.Empty<CredentialMetadata>();
        }

        private sealed class Bindings
        {
            [JsonPropertyName("bindings")]
            public IReadOnlyList<CredentialBindingMetadata> Items { get; set; } =
                Array.Empty<CredentialBindingMetadata>();
        }
    }
}
