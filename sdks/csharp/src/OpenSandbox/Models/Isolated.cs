using System;
using System.Collections.Generic;
using System.Text.Json.Serialization;

namespace OpenSandbox.Models
{
    /// <summary>How code runs in an isolated session.</summary>
    public class IsolatedRunOptions
    {
        /// <summary>Directory; where the shell is unless given.</summary>
        public string? WorkingDirectory { get; set; }

        /// <summary>Variables of this run.</summary>
        public IReadOnlyDictionary<string, string>? Envs { get; set; }

        /// <summary>After it what runs is ended; 300 seconds unless given, no limit when zero. A background
        /// run has none.</summary>
        public TimeSpan? Timeout { get; set; }
    }

    /// <summary>What a commit of an isolated session did.</summary>
    public class IsolatedCommit
    {
        /// <summary>Files that were written into the workspace.</summary>
        [JsonPropertyName("files_written")]
        public long FilesWritten { get; set; }

        /// <summary>Paths that were removed from it.</summary>
        [JsonPropertyName("paths_removed")]
        public long PathsRemoved { get; set; }

        /// <summary>Whether the session began anew.</summary>
        [JsonPropertyName("upper_reset")]
        public bool UpperReset { get; set; }
    }
}
