using System;
using System.Collections.Generic;
using System.Linq;
using System.Text.Json.Serialization;
using System.Threading.Tasks;

namespace OpenSandbox.Models
{
    /// <summary>A piece of output: a line without its newline.</summary>
    public class OutputMessage
    {
        /// <summary>The text.</summary>
        public string Text { get; set; } = "";

        /// <summary>Milliseconds since 1970.</summary>
        public long Timestamp { get; set; }

        /// <summary>Whether it came from standard error.</summary>
        public bool IsError { get; set; }
    }

    /// <summary>A value that code returned or displayed.</summary>
    public class ExecutionResult
    {
        /// <summary>Its plain text; null when it has none.</summary>
        public string? Text { get; set; }

        /// <summary>Milliseconds since 1970.</summary>
        public long Timestamp { get; set; }

        /// <summary>All its forms, by MIME type.</summary>
        public IReadOnlyDictionary<string, object>? Raw { get; set; }

        /// <summary>One form as text, such as "text/html" or "image/png" (base64); null if missing.</summary>
        public string? Form(string mimeType) =>
            Raw != null && Raw.TryGetValue(mimeType, out var value) ? value.ToString() : null;
    }

    /// <summary>Why a command or a cell failed. The Value of a failed command is its exit status.</summary>
    public class ExecutionError
    {
        /// <summary>Name of the error.</summary>
        public string Name { get; set; } = "";

        /// <summary>Its value.</summary>
        public string Value { get; set; } = "";

        /// <summary>Milliseconds since 1970.</summary>
        public long Timestamp { get; set; }

        /// <summary>Lines of the traceback.</summary>
        public IReadOnlyList<string> Traceback { get; set; } = Array.Empty<string>();
    }

    /// <summary>A run came to its end.</summary>
    public class ExecutionComplete
    {
        /// <summary>Milliseconds since 1970.</summary>
        public long Timestamp { get; set; }

        /// <summary>How long the run took.</summary>
        public long ExecutionTimeMs { get; set; }
    }

    /// <summary>A run began.</summary>
    public class ExecutionInit
    {
        /// <summary>Id of the run.</summary>
        public string Id { get; set; } = "";

        /// <summary>Milliseconds since 1970.</summary>
        public long Timestamp { get; set; }
    }

    /// <summary>What a run printed.</summary>
    public class ExecutionLogs
    {
        /// <summary>Lines of standard output.</summary>
        public List<OutputMessage> Stdout { get; } = new List<OutputMessage>();

        /// <summary>Lines of standard error.</summary>
        public List<OutputMessage> Stderr { get; } = new List<OutputMessage>();
    }

    /// <summary>What a run printed, returned and ended with.</summary>
    public class Execution
    {
        /// <summary>Id of the run.</summary>
        public string? Id { get; set; }

        /// <summary>Number of the cell in its context.</summary>
        public int? ExecutionCount { get; set; }

        /// <summary>What it printed.</summary>
        public ExecutionLogs Logs { get; } = new ExecutionLogs();

        /// <summary>What it returned or displayed.</summary>
        public List<ExecutionResult> Results { get; } = new List<ExecutionResult>();

        /// <summary>Why it failed; null when it did not.</summary>
        public ExecutionError? Error { get; set; }

        /// <summary>Set when it came to its end.</summary>
        public ExecutionComplete? Complete { get; set; }

        /// <summary>Exit status of a foreground command.</summary>
        public int? ExitCode { get; set; }

        /// <summary>Standard output, then the plain text of results, joined by newlines.</summary>
        public string Text => string.Join("\n", Logs.Stdout.Select(m => m.Text.TrimEnd('\n'))
            .Concat(Results.Where(r => r.Text != null).Select(r => r.Text!))).TrimEnd('\n');
    }

    /// <summary>Called while a run goes on, in order; an exception ends the run's stream.</summary>
    public class ExecutionHandlers
    {
        /// <summary>Takes every event as it came.</summary>
        public Func<ServerStreamEvent, Task>? OnEvent { get; set; }

        /// <summary>Takes lines of standard output.</summary>
        public Func<OutputMessage, Task>? OnStdout { get; set; }

        /// <summary>Takes lines of standard error.</summary>
        public Func<OutputMessage, Task>? OnStderr { get; set; }

        /// <summary>Takes results.</summary>
        public Func<ExecutionResult, Task>? OnResult { get; set; }

        /// <summary>Takes the end of a run.</summary>
        public Func<ExecutionComplete, Task>? OnExecutionComplete { get; set; }

        /// <summary>Takes the failure of a run.</summary>
        public Func<ExecutionError, Task>? OnError { get; set; }

        /// <summary>Takes the id of a run.</summary>
        public Func<ExecutionInit, Task>? OnInit { get; set; }

        /// <summary>Whether the Execution keeps no output.</summary>
        public bool SkipAccumulation { get; set; }
    }

    public partial class ServerStreamEvent
    {
        /// <summary>Whether a piece of output goes on with the line before.</summary>
        [JsonPropertyName("continues")]
        public bool? Continues { get; set; }
    }

    /// <summary>Types of events.</summary>
    public static class ServerStreamEventTypes
    {
        /// <summary>Id of a run.</summary>
        public const string Init = "init";

        /// <summary>A line of standard output.</summary>
        public const string Stdout = "stdout";

        /// <summary>A line of standard error.</summary>
        public const string Stderr = "stderr";

        /// <summary>A value.</summary>
        public const string Result = "result";

        /// <summary>Number of a cell.</summary>
        public const string ExecutionCount = "execution_count";

        /// <summary>The end.</summary>
        public const string ExecutionComplete = "execution_complete";

        /// <summary>A failure.</summary>
        public const string Error = "error";
    }
}
