using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Net;
using System.Net.Http;
using System.Net.Http.Headers;
using System.Runtime.CompilerServices;
using System.Text;
using System.Text.Json;
using System.Text.Json.Serialization;
using System.Threading;
using System.Threading.Tasks;
using OpenSandbox.Core;
using OpenSandbox.Internal;
using OpenSandbox.Models;
using OpenSandbox.Services;

namespace OpenSandbox.Adapters
{
    /// <summary>Files over HTTP.</summary>
    internal sealed class FilesAdapter : ISandboxFiles
    {
        private const int PieceBytes = 64 << 10;
        private readonly Api _api;

        internal FilesAdapter(Api api) => _api = api;

        internal static HttpContent StreamBody(Stream stream, string type) => new StreamContent(stream)
        {
            Headers = { ContentType = new MediaTypeHeaderValue(type) },
        };

        internal static async Task<Stream> OpenStreamAsync(Api api, string path, CancellationToken ct)
        {
            var answer = await api.OpenAsync(HttpMethod.Get, path, null, ct).ConfigureAwait(false);
            return await answer.Content.ReadAsStreamAsync().ConfigureAwait(false);
        }

        private static (string, object?)[] Paths(IEnumerable<string> paths) =>
            paths.Select(p => ("path", (object?)p)).ToArray();

        public async Task<IReadOnlyDictionary<string, SandboxFileInfo>> GetFileInfoAsync(
            IEnumerable<string> paths, CancellationToken ct) =>
            await _api.GetAsync<Dictionary<string, SandboxFileInfo>>(
                Api.Path($"/files/info", Paths(paths)), ct).ConfigureAwait(false);

        public async Task<IReadOnlyList<SandboxFileInfo>> SearchAsync(SearchEntry entry,
                                                                      CancellationToken ct) =>
            await _api.GetAsync<List<SandboxFileInfo>>(Api.Path($"/files/search", ("path", entry.Path),
                ("pattern", entry.Pattern)), ct).ConfigureAwait(false);

        public async Task<IReadOnlyList<SandboxFileInfo>> ListDirectoryAsync(string path, int? depth,
                                                                             CancellationToken ct) =>
            await _api.GetAsync<List<SandboxFileInfo>>(Api.Path($"/directories/list", ("path", path),
                ("depth", depth)), ct).ConfigureAwait(false);

        public Task CreateDirectoriesAsync(IEnumerable<CreateDirectoryEntry> entries, CancellationToken ct) =>
            _api.DoAsync(HttpMethod.Post, "/directories", entries.ToDictionary(e => e.Path,
                e => new Permission { Mode = e.Mode ?? 755, Owner = e.Owner, Group = e.Group }), ct);

        public Task DeleteDirectoriesAsync(IEnumerable<string> paths, CancellationToken ct) =>
            _api.DoAsync(HttpMethod.Delete, Api.Path($"/directories", Paths(paths)), null, ct);

        public Task DeleteFilesAsync(IEnumerable<string> paths, CancellationToken ct) =>
            _api.DoAsync(HttpMethod.Delete, Api.Path($"/files", Paths(paths)), null, ct);

        public Task MoveFilesAsync(IEnumerable<MoveEntry> entries, CancellationToken ct) =>
            _api.DoAsync(HttpMethod.Post, "/files/mv", entries.ToList(), ct);

        public Task SetPermissionsAsync(IEnumerable<SetPermissionEntry> entries, CancellationToken ct) =>
            _api.DoAsync(HttpMethod.Post, "/files/permissions", entries.ToDictionary(e => e.Path,
                e => new Permission { Mode = e.Mode, Owner = e.Owner, Group = e.Group }), ct);

        private static Dictionary<string, ReplaceFileContentItem> Replacements(
            IEnumerable<ContentReplaceEntry> entries) => entries.ToDictionary(e => e.Path,
                e => new ReplaceFileContentItem { Old = e.OldContent, New = e.NewContent });

        public Task ReplaceContentsAsync(IEnumerable<ContentReplaceEntry> entries, CancellationToken ct) =>
            _api.DoAsync(HttpMethod.Post, "/files/replace", Replacements(entries), ct);

        public async Task<IReadOnlyList<ContentReplaceResult>> ReplaceContentsDetailedAsync(
            IEnumerable<ContentReplaceEntry> entries, CancellationToken ct)
        {
            var counts = await _api.PostAsync<Dictionary<string, Count>>(
                Api.Path($"/files/replace", ("verbose", true)), Replacements(entries), ct)
                .ConfigureAwait(false);
            return counts.Select(pair => new ContentReplaceResult
                { Path = pair.Key, ReplacedCount = pair.Value.ReplacedCount }).ToList();
        }

        private static string DownloadPath(string path, ReadBytesOptions? options)
        {
            InvalidArgumentException.NeedText(path, "path");
            if (options?.Range != null && (options.Offset ?? options.Limit) != null)
                throw new InvalidArgumentException("Range and Offset or Limit exclude each other");
            return Api.Path($"/files/download", ("path", path), ("offset", options?.Offset),
                            ("limit", options?.Limit));
        }

        private async Task<HttpResponseMessage> DownloadAsync(string path, ReadBytesOptions? options,
                                                              CancellationToken ct)
        {
            var headers = new Dictionary<string, string>();
            if (options?.Range != null)
                headers["Range"] = options.Range;
            return await _api.OpenAsync(HttpMethod.Get, DownloadPath(path, options), null, ct, headers)
                .ConfigureAwait(false);
        }

        public async IAsyncEnumerable<byte[]> ReadBytesStreamAsync(string path,
            ReadBytesOptions? options, [EnumeratorCancellation] CancellationToken ct)
        {
            // A whole file goes on where its download broke; parts are asked for as they are.
            var whole = options?.Range == null && (options?.Offset ?? options?.Limit) == null;
            var piece = new byte[PieceBytes];
            long done = 0;
            for (var more = true; more;)
            {
                var part = done == 0 ? options : new ReadBytesOptions { Range = $"bytes={done}-" };
                using var answer = await DownloadAsync(path, part, ct).ConfigureAwait(false);
                if (done > 0 && answer.StatusCode != HttpStatusCode.PartialContent)
                    throw new SandboxInternalException($"{path}: the download broke after {done} bytes");
                using var stream = await answer.Content.ReadAsStreamAsync().ConfigureAwait(false);
                using var cut = ct.Register(answer.Dispose);
                var before = done;
                int n;
                while ((n = await ReadAsync(stream, piece, ct).ConfigureAwait(false)) > 0)
                {
                    done += n;
                    yield return piece.AsSpan(0, n).ToArray();
                }
                more = n < 0;
                if (more && (!whole || done == before))
                    throw new SandboxInternalException($"{path}: the download broke after {done} bytes");
            }
        }

        /// <summary>0 at the end, -1 when the connection broke.</summary>
        private static async Task<int> ReadAsync(Stream stream, byte[] piece, CancellationToken ct)
        {
            try
            {
                return await stream.ReadAsync(piece, 0, piece.Length, ct).ConfigureAwait(false);
            }
            catch (Exception e) when (e is IOException || e is ObjectDisposedException ||
                                      e is HttpRequestException)
            {
                ct.ThrowIfCancellationRequested();
                return -1;
            }
        }

        public async Task<byte[]> ReadBytesAsync(string path, ReadBytesOptions? options,
                                                 CancellationToken ct)
        {
            using var all = new MemoryStream();
            await foreach (var piece in ReadBytesStreamAsync(path, options, ct).ConfigureAwait(false))
                all.Write(piece, 0, piece.Length);
            return all.ToArray();
        }

        public async Task<string> ReadFileAsync(string path, ReadFileOptions? options,
                                                CancellationToken ct)
        {
            var encoding = Encoding.GetEncoding(options?.Encoding ?? "utf-8");
            return encoding.GetString(await ReadBytesAsync(path, options, ct).ConfigureAwait(false));
        }

        public async Task WriteFilesAsync(IEnumerable<WriteEntry> entries, CancellationToken ct)
        {
            var all = entries.ToList();
            if (all.Count == 0)
                return;
            foreach (var entry in all)
                InvalidArgumentException.NeedText(entry.Path, "path");
            // A timeout would cut large uploads; the caller's token ends them.
            await _api.CallAsync(HttpMethod.Post, "/files/upload", () => Form(all), ct, false)
                .ConfigureAwait(false);
        }

        private static MultipartFormDataContent Form(IEnumerable<WriteEntry> entries)
        {
            var form = new MultipartFormDataContent();
            foreach (var entry in entries)
            {
                var about = new FileMetadata
                    { Path = entry.Path, Mode = entry.Mode ?? 755, Owner = entry.Owner, Group = entry.Group };
                form.Add(Part(new ByteArrayContent(JsonSerializer.SerializeToUtf8Bytes(about, Api.Json)),
                              "metadata", "metadata", "application/json"));
                form.Add(Part(DataOf(entry), "file", Path.GetFileName(entry.Path),
                              "application/octet-stream"));
            }
            return form;
        }

        private static HttpContent Part(HttpContent content, string field, string name, string type)
        {
            var quoted = name.Replace("\\", "\\\\").Replace("\"", "\\\"");
            content.Headers.TryAddWithoutValidation("Content-Disposition",
                $"form-data; name=\"{field}\"; filename=\"{Printable(quoted)}\"");
            content.Headers.ContentType = new MediaTypeHeaderValue(type);
            return content;
        }

        /// <summary>A header cannot carry line ends and other letters; the metadata has the real name.</summary>
        private static string Printable(string name) =>
            new string(name.Select(c => c < 32 || c > 126 ? '_' : c).ToArray());

        private static HttpContent DataOf(WriteEntry entry) => entry.Data switch
        {
            null => new ByteArrayContent(Array.Empty<byte>()),
            string text => new ByteArrayContent(Encoding.UTF8.GetBytes(text)),
            byte[] bytes => new ByteArrayContent(bytes),
            Stream stream => new StreamContent(stream),
            IAsyncEnumerable<byte[]> pieces => new PiecesContent(pieces),
            _ => throw new InvalidArgumentException(
                $"{entry.Path}: Data must be string, byte[], Stream or IAsyncEnumerable<byte[]>, " +
                $"not {entry.Data.GetType().Name}"),
        };

        public async Task UploadDirectoryAsync(string path, Stream tar, CancellationToken ct) =>
            await _api.CallAsync(HttpMethod.Post, Api.Path($"/directories/upload", ("path", path)),
                () => StreamBody(tar, "application/x-tar"), ct, false).ConfigureAwait(false);

        public Task<Stream> DownloadDirectoryAsync(string path, CancellationToken ct) =>
            OpenStreamAsync(_api, Api.Path($"/directories/download", ("path", path)), ct);

        public async IAsyncEnumerable<WatchEvent> WatchAsync(string path, bool recursive,
            [EnumeratorCancellation] CancellationToken ct)
        {
            await foreach (var data in EventStream.OpenAsync(_api, HttpMethod.Get,
                               Api.Path($"/directories/watch", ("path", path), ("recursive", recursive)),
                               null, ct).ConfigureAwait(false))
            {
                var e = EventStream.Parse<WatchEvent>(data);
                if (e.Type != "ping")
                    yield return e;
            }
            throw new StreamEndedException($"the watch of {path} ended");
        }

        private sealed class Count
        {
            [JsonPropertyName("replacedCount")]
            public int ReplacedCount { get; set; }
        }

        private sealed class PiecesContent : HttpContent
        {
            private readonly IAsyncEnumerable<byte[]> _pieces;

            internal PiecesContent(IAsyncEnumerable<byte[]> pieces) => _pieces = pieces;

            protected override async Task SerializeToStreamAsync(Stream stream, TransportContext context)
            {
                await foreach (var piece in _pieces.ConfigureAwait(false))
                    await stream.WriteAsync(piece, 0, piece.Length).ConfigureAwait(false);
            }

            protected override bool TryComputeLength(out long length)
            {
                length = 0;
                return false;
            }
        }
    }
}
