using System;
using System.Collections.Generic;
using System.Text.Json.Serialization;

namespace OpenSandbox.Models
{
    public partial class CreateSandboxRequest
    {
        /// <summary>Sent as a header: a second request with the key and the same body is answered with the
        /// sandbox of the first.</summary>
        [JsonIgnore]
        public string? IdempotencyKey { get; set; }
    }

    /// <summary>What a rule does with traffic.</summary>
    [JsonConverter(typeof(Internal.RuleActionConverter))]
    public enum NetworkRuleAction
    {
        /// <summary>Let it pass.</summary>
        Allow,

        /// <summary>Refuse it.</summary>
        Deny,
    }

    /// <summary>States of a sandbox. A server may send others.</summary>
    public static class SandboxStates
    {
#pragma warning disable CS1591 // the names say it
        public const string Pending = "Pending";
        public const string Running = "Running";
        public const string Pausing = "Pausing";
        public const string Paused = "Paused";
        public const string Stopping = "Stopping";
        public const string Terminated = "Terminated";
        public const string Failed = "Failed";
        // Names of the published SDK, which no server sends.
        public const string Creating = "Creating";
        public const string Resuming = "Resuming";
        public const string Deleting = "Deleting";
        public const string Deleted = "Deleted";
        public const string Error = "Error";
#pragma warning restore CS1591
    }

    /// <summary>States of a snapshot.</summary>
    public static class SnapshotStates
    {
#pragma warning disable CS1591 // the names say it
        public const string Creating = "Creating";
        public const string Ready = "Ready";
        public const string Failed = "Failed";
        public const string Deleting = "Deleting";
#pragma warning restore CS1591
    }

    /// <summary>Types of events of sandboxes. Others are `sandbox.` and what happened.</summary>
    public static class LifecycleEventTypes
    {
        /// <summary>What came after the place that was asked for is not kept any more: list the sandboxes
        /// anew. Such an event has no other member.</summary>
        public const string Reset = "reset";
    }

    /// <summary>Changes metadata: a null value removes the key.</summary>
    public class SandboxMetadataPatch : Dictionary<string, string?>
    {
    }

    /// <summary>Selects sandboxes: any of States, all of Metadata. Pages count from 1.</summary>
    public class SandboxFilter
    {
        /// <summary>States, any of them.</summary>
        public IReadOnlyList<string>? States { get; set; }

        /// <summary>Metadata, all of it.</summary>
        public IReadOnlyDictionary<string, string>? Metadata { get; set; }

        /// <summary>Which page, from 1.</summary>
        public int? Page { get; set; }

        /// <summary>Sandboxes on a page.</summary>
        public int? PageSize { get; set; }
    }

    /// <summary>The same under the name that ISandboxes uses.</summary>
    public class ListSandboxesParams : SandboxFilter
    {
    }

    /// <summary>Selects snapshots.</summary>
    public class SnapshotFilter
    {
        /// <summary>Of this sandbox only.</summary>
        public string? SandboxId { get; set; }

        /// <summary>States, any of them.</summary>
        public IReadOnlyList<string>? States { get; set; }

        /// <summary>Which page, from 1.</summary>
        public int? Page { get; set; }

        /// <summary>Snapshots on a page.</summary>
        public int? PageSize { get; set; }
    }

    /// <summary>How to run a command.</summary>
    public class RunCommandOptions
    {
        /// <summary>Directory to run in.</summary>
        public string? WorkingDirectory { get; set; }

        /// <summary>Whether the call returns while the command goes on.</summary>
        public bool Background { get; set; }

        /// <summary>Program and arguments, run without a shell; the command is empty then.</summary>
        public IReadOnlyList<string>? Argv { get; set; }

        /// <summary>Seconds after which the server ends the command.</summary>
        public int? TimeoutSeconds { get; set; }

        /// <summary>The same as a duration; wins over TimeoutSeconds.</summary>
        public TimeSpan? Timeout { get; set; }

        /// <summary>User id.</summary>
        public long? Uid { get; set; }

        /// <summary>Group id; needs Uid.</summary>
        public long? Gid { get; set; }

        /// <summary>Environment variables.</summary>
        public IReadOnlyDictionary<string, string>? Envs { get; set; }

        /// <summary>Standard input, given at the start.</summary>
        public string? Stdin { get; set; }

        /// <summary>Whether more input comes by WriteInputAsync.</summary>
        public bool StdinOpen { get; set; }
    }

    /// <summary>How to make a session.</summary>
    public class CreateSessionOptions
    {
        /// <summary>Directory to begin in.</summary>
        public string? WorkingDirectory { get; set; }
    }

    /// <summary>How to run a command in a session.</summary>
    public class RunInSessionOptions
    {
        /// <summary>Directory of this run.</summary>
        public string? WorkingDirectory { get; set; }

        /// <summary>Seconds after which the server ends the run.</summary>
        public int? TimeoutSeconds { get; set; }

        /// <summary>The same as a duration; wins over TimeoutSeconds.</summary>
        public TimeSpan? Timeout { get; set; }
    }

    /// <summary>Output of a background command, and where the next call goes on.</summary>
    public class CommandLogs
    {
        /// <summary>The output.</summary>
        public string Content { get; set; } = "";

        /// <summary>What to ask with next.</summary>
        public long? Cursor { get; set; }
    }

    /// <summary>A file to write.</summary>
    public class WriteEntry
    {
        /// <summary>Its path.</summary>
        public string Path { get; set; } = "";

        /// <summary>string, byte[], Stream or IAsyncEnumerable of byte[]; streams are sent as they are read.</summary>
        public object? Data { get; set; }

        /// <summary>Decimal digits read as octal, such as 644.</summary>
        public int? Mode { get; set; }

        /// <summary>Name of its owner.</summary>
        public string? Owner { get; set; }

        /// <summary>Name of its group.</summary>
        public string? Group { get; set; }
    }

    /// <summary>A directory to make.</summary>
    public class CreateDirectoryEntry
    {
        /// <summary>Its path.</summary>
        public string Path { get; set; } = "";

        /// <summary>Decimal digits read as octal, such as 755.</summary>
        public int? Mode { get; set; }

        /// <summary>Name of its owner.</summary>
        public string? Owner { get; set; }

        /// <summary>Name of its group.</summary>
        public string? Group { get; set; }
    }

    /// <summary>What to search for.</summary>
    public class SearchEntry
    {
        /// <summary>Directory to search below.</summary>
        public string Path { get; set; } = "";

        /// <summary>Glob pattern of names.</summary>
        public string? Pattern { get; set; }
    }

    /// <summary>Text to replace in a file.</summary>
    public class ContentReplaceEntry
    {
        /// <summary>Path of the file.</summary>
        public string Path { get; set; } = "";

        /// <summary>What to replace.</summary>
        public string OldContent { get; set; } = "";

        /// <summary>By what.</summary>
        public string NewContent { get; set; } = "";
    }

    /// <summary>How often text was replaced in a file.</summary>
    public class ContentReplaceResult
    {
        /// <summary>Path of the file.</summary>
        public string Path { get; set; } = "";

        /// <summary>How often.</summary>
        public int ReplacedCount { get; set; }
    }

    /// <summary>Mode and owner to set.</summary>
    public class SetPermissionEntry
    {
        /// <summary>Path of the file.</summary>
        public string Path { get; set; } = "";

        /// <summary>Decimal digits read as octal, such as 644.</summary>
        public int Mode { get; set; }

        /// <summary>Name of the owner.</summary>
        public string? Owner { get; set; }

        /// <summary>Name of the group.</summary>
        public string? Group { get; set; }
    }

    /// <summary>Which part of a file to read as bytes.</summary>
    public class ReadBytesOptions
    {
        /// <summary>HTTP range, such as "bytes=0-1023".</summary>
        public string? Range { get; set; }

        /// <summary>First line, from 1; not together with Range.</summary>
        public int? Offset { get; set; }

        /// <summary>Number of lines.</summary>
        public int? Limit { get; set; }
    }

    /// <summary>Which part of a file to read as text.</summary>
    public class ReadFileOptions : ReadBytesOptions
    {
        /// <summary>Name of the encoding; UTF-8 unless given.</summary>
        public string? Encoding { get; set; }
    }

    /// <summary>How far a pull of an image is.</summary>
    public class PullProgress
    {
        /// <summary>What it does.</summary>
        [JsonPropertyName("message")]
        public string? Message { get; set; }

        /// <summary>Bytes so far.</summary>
        [JsonPropertyName("bytesDone")]
        public long BytesDone { get; set; }

        /// <summary>Bytes in all; 0 while not known.</summary>
        [JsonPropertyName("bytesTotal")]
        public long BytesTotal { get; set; }
    }

    /// <summary>The policy in force and how it is enforced.</summary>
    public class EgressPolicyStatus
    {
        /// <summary>Status.</summary>
        [JsonPropertyName("status")]
        public string? Status { get; set; }

        /// <summary>Mode.</summary>
        [JsonPropertyName("mode")]
        public string? Mode { get; set; }

        /// <summary>How it is enforced.</summary>
        [JsonPropertyName("enforcementMode")]
        public string? EnforcementMode { get; set; }

        /// <summary>Why it is not, if so.</summary>
        [JsonPropertyName("reason")]
        public string? Reason { get; set; }

        /// <summary>The policy.</summary>
        [JsonPropertyName("policy")]
        public NetworkPolicy? Policy { get; set; }
    }
}
