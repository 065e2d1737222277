using System.Collections.Generic;
using System.Text.Json.Serialization;

namespace OpenSandbox.Models
{
    /// <summary>A secret given in place.</summary>
    public class InlineCredentialSource
    {
        /// <summary>Kind of the source.</summary>
        [JsonPropertyName("type")]
        public string Type { get; set; } = "inline";

        /// <summary>The secret; it never comes back.</summary>
        [JsonPropertyName("value")]
        public string Value { get; set; } = "";
    }

    /// <summary>A secret with a name.</summary>
    public class Credential
    {
        /// <summary>Its name.</summary>
        [JsonPropertyName("name")]
        public string Name { get; set; } = "";

        /// <summary>Where it comes from.</summary>
        [JsonPropertyName("source")]
        public InlineCredentialSource Source { get; set; } = new InlineCredentialSource();
    }

    /// <summary>Selects the requests that get a credential.</summary>
    public class CredentialMatch
    {
        /// <summary>http, https.</summary>
        [JsonPropertyName("schemes")]
        public IReadOnlyList<string>? Schemes { get; set; }

        /// <summary>Ports.</summary>
        [JsonPropertyName("ports")]
        public IReadOnlyList<int>? Ports { get; set; }

        /// <summary>Host names.</summary>
        [JsonPropertyName("hosts")]
        public IReadOnlyList<string> Hosts { get; set; } = System.Array.Empty<string>();

        /// <summary>HTTP methods.</summary>
        [JsonPropertyName("methods")]
        public IReadOnlyList<string>? Methods { get; set; }

        /// <summary>Paths.</summary>
        [JsonPropertyName("paths")]
        public IReadOnlyList<string>? Paths { get; set; }
    }

    /// <summary>A header whose value is a credential.</summary>
    public class CustomHeaderEntry
    {
        /// <summary>Name of the header.</summary>
        [JsonPropertyName("name")]
        public string Name { get; set; } = "";

        /// <summary>Name of the credential.</summary>
        [JsonPropertyName("credential")]
        public string Credential { get; set; } = "";
    }

    /// <summary>How a credential is sent: bearer, basic, apiKey or customHeaders.</summary>
    public class CredentialAuth
    {
        /// <summary>bearer, basic, apiKey, customHeaders.</summary>
        [JsonPropertyName("type")]
        public string Type { get; set; } = "";

        /// <summary>Name of the credential.</summary>
        [JsonPropertyName("credential")]
        public string? Credential { get; set; }

        /// <summary>Header of an apiKey.</summary>
        [JsonPropertyName("name")]
        public string? Name { get; set; }

        /// <summary>Of customHeaders.</summary>
        [JsonPropertyName("headers")]
        public IReadOnlyList<CustomHeaderEntry>? Headers { get; set; }
    }

    /// <summary>Ties credentials to requests.</summary>
    public class CredentialBinding
    {
        /// <summary>Its name.</summary>
        [JsonPropertyName("name")]
        public string Name { get; set; } = "";

        /// <summary>Which requests.</summary>
        [JsonPropertyName("match")]
        public CredentialMatch Match { get; set; } = new CredentialMatch();

        /// <summary>How they get it.</summary>
        [JsonPropertyName("auth")]
        public CredentialAuth Auth { get; set; } = new CredentialAuth();
    }

    /// <summary>Fills a vault.</summary>
    public class CredentialVaultCreateRequest
    {
        /// <summary>The secrets.</summary>
        [JsonPropertyName("credentials")]
        public IReadOnlyList<Credential> Credentials { get; set; } = System.Array.Empty<Credential>();

        /// <summary>The bindings.</summary>
        [JsonPropertyName("bindings")]
        public IReadOnlyList<CredentialBinding> Bindings { get; set; } = System.Array.Empty<CredentialBinding>();
    }

    /// <summary>Changes credentials.</summary>
    public class CredentialMutationSet
    {
        /// <summary>New ones.</summary>
        [JsonPropertyName("add")]
        public IReadOnlyList<Credential>? Add { get; set; }

        /// <summary>Changed ones.</summary>
        [JsonPropertyName("replace")]
        public IReadOnlyList<Credential>? Replace { get; set; }

        /// <summary>Names to remove.</summary>
        [JsonPropertyName("delete")]
        public IReadOnlyList<string>? Delete { get; set; }
    }

    /// <summary>Changes bindings.</summary>
    public class CredentialBindingMutationSet
    {
        /// <summary>New ones.</summary>
        [JsonPropertyName("add")]
        public IReadOnlyList<CredentialBinding>? Add { get; set; }

        /// <summary>Changed ones.</summary>
        [JsonPropertyName("replace")]
        public IReadOnlyList<CredentialBinding>? Replace { get; set; }

        /// <summary>Names to remove.</summary>
        [JsonPropertyName("delete")]
        public IReadOnlyList<string>? Delete { get; set; }
    }

    /// <summary>Changes a vault, all of it or nothing.</summary>
    public class CredentialVaultPatchRequest
    {
        /// <summary>Refused when the vault has another.</summary>
        [JsonPropertyName("expectedRevision")]
        public long? ExpectedRevision { get; set; }

        /// <summary>Changes of credentials.</summary>
        [JsonPropertyName("credentials")]
        public CredentialMutationSet? Credentials { get; set; }

        /// <summary>Changes of bindings.</summary>
        [JsonPropertyName("bindings")]
        public CredentialBindingMutationSet? Bindings { get; set; }
    }

    /// <summary>A credential without its secret.</summary>
    public class CredentialMetadata
    {
        /// <summary>Its name.</summary>
        [JsonPropertyName("name")]
        public string Name { get; set; } = "";

        /// <summary>Kind of its source.</summary>
        [JsonPropertyName("sourceType")]
        public string SourceType { get; set; } = "";

        /// <summary>When it changed.</summary>
        [JsonPropertyName("revision")]
        public long Revision { get; set; }
    }

    /// <summary>How a binding sends its credential.</summary>
    public class CredentialAuthMetadata
    {
        /// <summary>Kind.</summary>
        [JsonPropertyName("type")]
        public string Type { get; set; } = "";

        /// <summary>Header of an apiKey.</summary>
        [JsonPropertyName("name")]
        public string? Name { get; set; }
    }

    /// <summary>A binding as the server shows it.</summary>
    public class CredentialBindingMetadata
    {
        /// <summary>Its name.</summary>
        [JsonPropertyName("name")]
        public string Name { get; set; } = "";

        /// <summary>When it changed.</summary>
        [JsonPropertyName("revision")]
        public long Revision { get; set; }

        /// <summary>Which requests.</summary>
        [JsonPropertyName("match")]
        public CredentialMatch Match { get; set; } = new CredentialMatch();

        /// <summary>How they get it.</summary>
        [JsonPropertyName("auth")]
        public CredentialAuthMetadata? Auth { get; set; }
    }

    /// <summary>All of a vault but its secrets.</summary>
    public class CredentialVaultState
    {
        /// <summary>Grows by one with each change.</summary>
        [JsonPropertyName("revision")]
        public long Revision { get; set; }

        /// <summary>The credentials.</summary>
        [JsonPropertyName("credentials")]
        public IReadOnlyList<CredentialMetadata> Credentials { get; set; } = System.Array.Empty<CredentialMetadata>();

        /// <summary>The bindings.</summary>
        [JsonPropertyName("bindings")]
        public IReadOnlyList<CredentialBindingMetadata> Bindings { get; set; } = System.Array.Empty<CredentialBindingMetadata>();
    }
}
