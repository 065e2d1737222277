using System;
using System.Collections.Generic;
using System.IO;
using System.Net.Http;
using System.Net.WebSockets;
using System.Text;
using System.Text.Json;
using System.Threading;
using System.Threading.Tasks;
using OpenSandbox.Config;
using OpenSandbox.Core;
using OpenSandbox.Internal;
using OpenSandbox.Models;

namespace OpenSandbox
{
    /// <summary>A terminal of a sandbox. One task may read while others write.</summary>
    public sealed class Pty : IAsyncDisposable
    {
        private const int MessageBytesMax = 4 << 20;
        private const int PieceBytesMax = 32 << 10;
        private readonly Api _api;
        private readonly ClientWebSocket _socket;
        private readonly SemaphoreSlim _write = new SemaphoreSlim(1, 1);

        private Pty(Api api, ClientWebSocket socket, string id)
        {
            _api = api;
            _socket = socket;
            Id = id;
        }

        /// <summary>Id of the terminal session.</summary>
        public string Id { get; }

        /// <summary>How many bytes the terminal has printed so far, for AttachAsync.</summary>
        public long Offset { get; private set; }

        /// <summary>Exit status of the program once ReadAsync has returned null.</summary>
        public int? ExitCode { get; private set; }

        internal static async Task<Pty> OpenAsync(ConnectionConfig config, string baseUrl,
            IReadOnlyDictionary<string, string>? headers, PtyOptions? options, CancellationToken ct)
        {
            var api = new Api(config, baseUrl, headers);
            var info = await api.PostAsync<PtyCreated>("/pty", options ?? new PtyOptions(), ct)
                .ConfigureAwait(false);
            return await AttachAsync(api, info.Id, 0, false, ct).ConfigureAwait(false);
        }

        /// <summary>Connects to this terminal again after its connection broke.</summary>
        public Task<Pty> AttachAsync(bool takeover = true, CancellationToken cancellationToken = default) =>
            AttachAsync(_api, Id, Offset, takeover, cancellationToken);

        private static async Task<Pty> AttachAsync(Api api, string id, long since, bool takeover,
                                                   CancellationToken ct)
        {
            var socket = new ClientWebSocket();
            foreach (var pair in api.Headers)
                socket.Options.SetRequestHeader(pair.Key, pair.Value);
            var address = "ws" + api.BaseUrl.Substring(4) + Api.Path($"/pty/{id}/ws", ("since", since),
                ("takeover", takeover ? "1" : null));
            try
            {
                await socket.ConnectAsync(new Uri(address), ct).ConfigureAwait(false);
            }
            catch (WebSocketException e)
            {
                socket.Dispose();
                throw new SandboxInternalException($"terminal {id}: {e.Message}", e);
            }
            return new Pty(api, socket, id) { Offset = since };
        }

        /// <summary>Output of the terminal; null once its program has ended.</summary>
        public async Task<byte[]?> ReadAsync(CancellationToken cancellationToken = default)
        {
            while (true)
            {
                var (type, data) = await ReceiveAsync(cancellationToken).ConfigureAwait(false);
                if (type == WebSocketMessageType.Close)
                    return ExitCode != null ? (byte[]?)null
                        : throw new StreamEndedException($"terminal {Id}: the connection ended");
                if (type == WebSocketMessageType.Text)
                    TakeMessage(data);
                else if (Output(data) is byte[] output)
                    return output;
            }
        }

        private async Task<(WebSocketMessageType, byte[])> ReceiveAsync(CancellationToken ct)
        {
            using var whole = new MemoryStream();
            var piece = new byte[16 << 10];
            try
            {
                while (true)
                {
                    var got = await _socket.ReceiveAsync(new ArraySegment<byte>(piece), ct)
                        .ConfigureAwait(false);
                    whole.Write(piece, 0, got.Count);
                    if (whole.Length > MessageBytesMax)
                        throw new SandboxInternalException($"terminal {Id}: a message is too large");
                    if (got.EndOfMessage)
                        return (got.MessageType, whole.ToArray());
                }
            }
            catch (WebSocketException e)
            {
                return ExitCode != null ? (WebSocketMessageType.Close, Array.Empty<byte>())
                    : throw new StreamEndedException($"terminal {Id}: {e.Message}", e);
            }
        }

        /// <summary>A frame is a channel and bytes: 1 and 2 are output, 3 a replay with its offset.</summary>
        private byte[]? Output(byte[] frame)
        {
            var skip = 1;
            if (frame.Length >= 9 && frame[0] == 3)
            {
                Offset = 0;
                for (var i = 1; i < 9; i++)
                    Offset = (Offset << 8) | frame[i];
                skip = 9;
            }
            else if (frame.Length < 1 || frame[0] < 1 || frame[0] > 2)
            {
                return null;
            }
            Offset += frame.Length - skip;
            return frame.Length > skip ? frame.AsSpan(skip).ToArray() : null;
        }

        private void TakeMessage(byte[] text)
        {
            using var document = JsonDocument.Parse(text);
            var root = document.RootElement;
            var type = root.TryGetProperty("type", out var t) ? t.GetString() : null;
            if (type == "exit")
                ExitCode = root.TryGetProperty("exit_code", out var code) ? code.GetInt32() : 0;
            else if (type == "error")
                throw new SandboxInternalException($"terminal {Id}: " +
                    (root.TryGetProperty("error", out var why) ? why.GetString() : "failed"));
        }

        /// <summary>Sends keys.</summary>
        public async Task WriteAsync(byte[] keys, CancellationToken cancellationToken = default)
        {
            for (var sent = 0; sent < keys.Length; sent += PieceBytesMax)
            {
                var frame = new byte[1 + Math.Min(PieceBytesMax, keys.Length - sent)];
                Buffer.BlockCopy(keys, sent, frame, 1, frame.Length - 1);
                await SendAsync(frame, WebSocketMessageType.Binary, cancellationToken).ConfigureAwait(false);
            }
        }

        /// <summary>Sends keys.</summary>
        public Task WriteAsync(string keys, CancellationToken cancellationToken = default) =>
            WriteAsync(Encoding.UTF8.GetBytes(keys), cancellationToken);

        /// <summary>Tells the program the size of the terminal.</summary>
        public Task ResizeAsync(int columns, int rows, CancellationToken cancellationToken = default) =>
            SendAsync(JsonSerializer.SerializeToUtf8Bytes(new Dictionary<string, object>
                { ["type"] = "resize", ["cols"] = columns, ["rows"] = rows }),
                WebSocketMessageType.Text, cancellationToken);

        /// <summary>Sends SIGINT, SIGTERM, SIGKILL, SIGQUIT or SIGHUP to the program.</summary>
        public Task SignalAsync(string name, CancellationToken cancellationToken = default) =>
            SendAsync(JsonSerializer.SerializeToUtf8Bytes(new Dictionary<string, object>
                { ["type"] = "signal", ["signal"] = name }), WebSocketMessageType.Text, cancellationToken);

        private async Task SendAsync(byte[] data, WebSocketMessageType type, CancellationToken ct)
        {
            await _write.WaitAsync(ct).ConfigureAwait(false);
            try
            {
                await _socket.SendAsync(new ArraySegment<byte>(data), type, true, ct).ConfigureAwait(false);
            }
            catch (WebSocketException e)
            {
                throw new SandboxInternalException($"terminal {Id}: {e.Message}", e);
            }
            finally
            {
                _write.Release();
            }
        }

        /// <summary>Ends the terminal session and its program.</summary>
        public Task DeleteAsync(CancellationToken cancellationToken = default) =>
            _api.DoAsync(HttpMethod.Delete, Api.Path($"/pty/{Id}"), null, cancellationToken);

        /// <summary>Disconnects; the session goes on until DeleteAsync.</summary>
        public ValueTask DisposeAsync()
        {
            _socket.Dispose();
            _write.Dispose();
            return default;
        }

        private sealed class PtyCreated
        {
            [System.Text.Json.Serialization.JsonPropertyName("session_id")]
            public string Id { get; set; } = "";
        }
    }
}
