using System;
using System.Collections.Generic;
using System.IO;
using System.Net.Http;
using System.Runtime.CompilerServices;
using System.Text;
using System.Text.Json;
using System.Threading;
using System.Threading.Tasks;
using OpenSandbox.Core;

namespace OpenSandbox.Internal
{
    /// <summary>Events of a stream: bare JSON objects, or data lines of server-sent events.</summary>
    internal static class EventStream
    {
        internal const int EventBytesMax = 64 << 20;

        internal static async IAsyncEnumerable<ReadOnlyMemory<byte>> OpenAsync(
            Api api, HttpMethod method, string path, object? body,
            [EnumeratorCancellation] CancellationToken ct, string? lastEventId = null)
        {
            var accept = new Dictionary<string, string> { ["Accept"] = "text/event-stream" };
            if (lastEventId != null)
                accept["Last-Event-ID"] = lastEventId;
            using var answer = await api.OpenAsync(method, path,
                body == null ? null : (Func<HttpContent?>)(() => Api.JsonBody(body)), ct, accept)
                .ConfigureAwait(false);
            using var stream = await answer.Content.ReadAsStreamAsync().ConfigureAwait(false);
            // A pending read of HTTP/1.1 ends with its connection only.
            using var cut = ct.Register(answer.Dispose);
            using var watchdog = new Timer(_ => answer.Dispose());
            var pings = false;
            await foreach (var line in LinesAsync(stream, ct).ConfigureAwait(false))
            {
                var data = DataOf(line);
                if (line.Length > 0 && line.Span[0] == (byte)':')
                {
                    pings = true; // a comment: the server is there
                    watchdog.Change(api.StreamIdleTimeout, Timeout.InfiniteTimeSpan);
                }
                if (data.Length == 0)
                    continue;
                pings = pings || IsPing(data);
                // A half-open connection brings neither bytes nor an end; the time of the caller does not count.
                watchdog.Change(Timeout.InfiniteTimeSpan, Timeout.InfiniteTimeSpan);
                yield return data;
                if (pings)
                    watchdog.Change(api.StreamIdleTimeout, Timeout.InfiniteTimeSpan);
            }
        }

        private static readonly byte[] Ping = Encoding.ASCII.GetBytes("\"ping\"");

        private static bool IsPing(ReadOnlyMemory<byte> data) =>
            data.Length < 200 && data.Span.IndexOf(Ping) >= 0;

        /// <summary>The JSON of a line; empty for a comment, an empty line or another field.</summary>
        private static ReadOnlyMemory<byte> DataOf(ReadOnlyMemory<byte> line)
        {
            if (line.Length == 0)
                return default;
            if (line.Span[0] == (byte)'{')
                return line;
            if (line.Length > 5 && line.Span.Slice(0, 5).SequenceEqual(Encoding.ASCII.GetBytes("data:")))
            {
                var rest = line.Slice(5);
                return rest.Span[0] == (byte)' ' ? rest.Slice(1) : rest;
            }
            return default;
        }

        private static async IAsyncEnumerable<ReadOnlyMemory<byte>> LinesAsync(
            Stream stream, [EnumeratorCancellation] CancellationToken ct)
        {
            var buffer = new byte[32 << 10];
            int begin = 0, end = 0;
            while (true)
            {
                var at = Array.IndexOf(buffer, (byte)'\n', begin, end - begin);
                if (at >= 0)
                {
                    var length = at > begin && buffer[at - 1] == '\r' ? at - 1 - begin : at - begin;
                    yield return new ReadOnlyMemory<byte>(buffer, begin, length);
                    begin = at + 1;
                    continue;
                }
                if (begin > 0)
                    Buffer.BlockCopy(buffer, begin, buffer, 0, end - begin);
                (begin, end) = (0, end - begin);
                if (end == buffer.Length)
                {
                    if (end >= EventBytesMax)
                        throw new SandboxInternalException(
                            $"an event is longer than {EventBytesMax} bytes");
                    Array.Resize(ref buffer, end * 2);
                }
                var n = await ReadAsync(stream, buffer, end, ct).ConfigureAwait(false);
                if (n == 0)
                    break;
                end += n;
            }
            if (end > 0)
                yield return new ReadOnlyMemory<byte>(buffer, 0, end);
        }

        private static async Task<int> ReadAsync(Stream stream, byte[] buffer, int at,
                                                 CancellationToken ct)
        {
            try
            {
                return await stream.ReadAsync(buffer, at, buffer.Length - at, ct).ConfigureAwait(false);
            }
            catch (Exception e) when (e is IOException || e is HttpRequestException ||
                                      e is ObjectDisposedException)
            {
                ct.ThrowIfCancellationRequested();
                throw new StreamEndedException("the connection broke in the middle of a stream: " +
                                               e.Message, e);
            }
        }

        internal static T Parse<T>(ReadOnlyMemory<byte> data) where T : class
        {
            try
            {
                return JsonSerializer.Deserialize<T>(data.Span, Api.Json) ??
                       throw new SandboxInternalException("an event is null");
            }
            catch (JsonException e)
            {
                throw new SandboxInternalException("an event is not JSON: " + e.Message, e);
            }
        }
    }
}
