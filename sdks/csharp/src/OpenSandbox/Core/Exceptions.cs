using System;
using System.Linq;

namespace OpenSandbox.Core
{
    /// <summary>A code for programs and a message for people.</summary>
    public class SandboxError
    {
        /// <summary>Code of a failure that has no better one.</summary>
        public const string InternalUnknownError = "INTERNAL_UNKNOWN_ERROR";

        /// <summary>Code: the sandbox did not answer in time.</summary>
        public const string ReadyTimeout = "READY_TIMEOUT";

        /// <summary>Code: the sandbox failed or ended.</summary>
        public const string Unhealthy = "UNHEALTHY";

        /// <summary>Code: an argument is wrong.</summary>
        public const string InvalidArgument = "INVALID_ARGUMENT";

        /// <summary>Code: the server's answer has no error document.</summary>
        public const string UnexpectedResponse = "UNEXPECTED_RESPONSE";

        /// <summary>Code: a stream ended before its last event.</summary>
        public const string StreamEnded = "STREAM_ENDED";

        /// <summary>Makes an error.</summary>
        public SandboxError(string code, string? message = null)
        {
            Code = code;
            Message = message;
        }

        /// <summary>The code.</summary>
        public string Code { get; }

        /// <summary>The message.</summary>
        public string? Message { get; }
    }

    /// <summary>Base of all exceptions of the SDK.</summary>
    public class SandboxException : Exception
    {
        /// <summary>Makes an exception.</summary>
        public SandboxException(string message, Exception? cause = null, SandboxError? error = null,
                                string? requestId = null)
            : base(message, cause)
        {
            Error = error ?? new SandboxError(SandboxError.InternalUnknownError, message);
            RequestId = requestId;
        }

        /// <summary>What went wrong.</summary>
        public SandboxError Error { get; }

        /// <summary>X-Request-ID of the answer, if there was one.</summary>
        public string? RequestId { get; }
    }

    /// <summary>The server refused a request.</summary>
    public class SandboxApiException : SandboxException
    {
        /// <summary>Makes an exception.</summary>
        public SandboxApiException(string message, int? statusCode = null, string? requestId = null,
                                   object? rawBody = null, SandboxError? error = null)
            : base(message, null,
                   error ?? new SandboxError(SandboxError.UnexpectedResponse, message), requestId)
        {
            StatusCode = statusCode;
            RawBody = rawBody;
        }

        /// <summary>HTTP status.</summary>
        public int? StatusCode { get; }

        /// <summary>Body of the answer as it came.</summary>
        public object? RawBody { get; }

        /// <summary>When to try again, if the server told.</summary>
        public TimeSpan? RetryAfter { get; internal set; }
    }

    /// <summary>The network failed, or an answer cannot be understood.</summary>
    public class SandboxInternalException : SandboxException
    {
        /// <summary>Makes an exception.</summary>
        public SandboxInternalException(string message, Exception? cause = null,
                                        SandboxError? error = null)
            : base(message, cause, error)
        {
        }
    }

    /// <summary>A stream ended before its last event: what it did not bring is unknown.</summary>
    public class StreamEndedException : SandboxInternalException
    {
        /// <summary>Makes an exception.</summary>
        public StreamEndedException(string message, Exception? cause = null)
            : base(message, cause, new SandboxError(SandboxError.StreamEnded, message))
        {
        }
    }

    /// <summary>A sandbox failed or ended while it was waited for.</summary>
    public class SandboxUnhealthyException : SandboxException
    {
        /// <summary>Makes an exception.</summary>
        public SandboxUnhealthyException(string message, Exception? cause = null)
            : base(message, cause, new SandboxError(SandboxError.Unhealthy, message))
        {
        }
    }

    /// <summary>A sandbox did not answer in time.</summary>
    public class SandboxReadyTimeoutException : SandboxException
    {
        /// <summary>Makes an exception.</summary>
        public SandboxReadyTimeoutException(string message, Exception? cause = null)
            : base(message, cause, new SandboxError(SandboxError.ReadyTimeout, message))
        {
        }
    }

    /// <summary>An argument is wrong; nothing was sent.</summary>
    public class InvalidArgumentException : SandboxException
    {
        /// <summary>Makes an exception.</summary>
        public InvalidArgumentException(string message, Exception? cause = null)
            : base(message, cause, new SandboxError(SandboxError.InvalidArgument, message))
        {
        }

        internal static void NeedText(string? value, string name)
        {
            if (string.IsNullOrWhiteSpace(value))
                throw new InvalidArgumentException($"{name} must not be blank");
        }

        /// <summary>Refuses what cannot be an idempotency key: it goes into a header.</summary>
        internal static void NeedKey(string key)
        {
            NeedText(key, "IdempotencyKey");
            if (key.Length > 255 || key.Trim() != key || key.Any(c => c < ' ' || c > '~'))
                throw new InvalidArgumentException(
                    "IdempotencyKey must be at most 255 printable ASCII characters, without spaces around");
        }

        internal static void NeedPort(int port)
        {
            if (port < 1 || port > 65535)
                throw new InvalidArgumentException($"port must be 1 to 65535, not {port}");
        }
    }
}
