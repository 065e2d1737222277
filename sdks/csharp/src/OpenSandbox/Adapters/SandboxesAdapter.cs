using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Net.Http;
using System.Runtime.CompilerServices;
using System.Text.Json.Serialization;
using System.Threading;
using System.Threading.Tasks;
using OpenSandbox.Core;
using OpenSandbox.Internal;
using OpenSandbox.Models;
using OpenSandbox.Services;

namespace OpenSandbox.Adapters
{
    /// <summary>The lifecycle API over HTTP.</summary>
    internal sealed class SandboxesAdapter : ISandboxes
    {
        private static readonly HttpMethod Patch = new HttpMethod("PATCH");
        private readonly Api _api;

        internal SandboxesAdapter(Api api) => _api = api;

        private static string Of(string sandboxId, string more = "")
        {
            InvalidArgumentException.NeedText(sandboxId, "sandbox id");
            return Api.Path($"/sandboxes/{sandboxId}") + more;
        }

        private static string PageQuery(string path, IReadOnlyList<string>? states, int? page,
                                        int? pageSize, params (string, object?)[] more)
        {
            if (page < 1 || pageSize < 1)
                throw new InvalidArgumentException("Page and PageSize must be 1 or more");
            var query = (states ?? Array.Empty<string>()).Select(s => ("state", (object?)s))
                .Concat(more).Concat(new (string, object?)[] { ("page", page), ("pageSize", pageSize) });
            return path + Api.Path($"", query.ToArray());
        }

        public Task<SandboxInfo> CreateSandboxAsync(CreateSandboxRequest request, CancellationToken ct)
        {
            if (request.IdempotencyKey == null)
                return _api.PostAsync<SandboxInfo>("/sandboxes", request, ct);
            InvalidArgumentException.NeedKey(request.IdempotencyKey);
            return _api.PostOnceAsync<SandboxInfo>("/sandboxes", request, request.IdempotencyKey, ct);
        }

        public Task<SandboxInfo> GetSandboxAsync(string sandboxId, CancellationToken ct) =>
            _api.GetAsync<SandboxInfo>(Of(sandboxId), ct);

        public Task<ListSandboxesResponse> ListSandboxesAsync(SandboxFilter? filter, CancellationToken ct)
        {
            filter ??= new SandboxFilter();
            string? metadata = null;
            if (filter.Metadata != null && filter.Metadata.Count > 0)
                metadata = string.Join("&", filter.Metadata.Select(pair =>
                    Uri.EscapeDataString(pair.Key) + "=" + Uri.EscapeDataString(pair.Value)));
            return _api.GetAsync<ListSandboxesResponse>(PageQuery("/sandboxes", filter.States,
                filter.Page, filter.PageSize, ("metadata", metadata)), ct);
        }

        public Task DeleteSandboxAsync(string sandboxId, CancellationToken ct) =>
            _api.DoAsync(HttpMethod.Delete, Of(sandboxId), null, ct);

        public Task PauseSandboxAsync(string sandboxId, CancellationToken ct) =>
            _api.DoAsync(HttpMethod.Post, Of(sandboxId, "/pause"), null, ct);

        public Task ResumeSandboxAsync(string sandboxId, CancellationToken ct) =>
            _api.DoAsync(HttpMethod.Post, Of(sandboxId, "/resume"), null, ct);

        public Task<RenewSandboxExpirationResponse> RenewSandboxExpirationAsync(
            string sandboxId, RenewSandboxExpirationRequest request, CancellationToken ct) =>
            _api.PostAsync<RenewSandboxExpirationResponse>(Of(sandboxId, "/renew-expiration"), request, ct);

        public Task<SandboxInfo> PatchSandboxMetadataAsync(string sandboxId, SandboxMetadataPatch patch,
                                                           CancellationToken ct) =>
            _api.AskAsync<SandboxInfo>(Patch, Of(sandboxId, "/metadata"), patch, ct);

        public Task<Endpoint> GetSandboxEndpointAsync(string sandboxId, int port, bool useServerProxy,
                                                      long? expires, CancellationToken ct)
        {
            InvalidArgumentException.NeedPort(port);
            return _api.GetAsync<Endpoint>(Of(sandboxId) + Api.Path($"/endpoints/{port}",
                ("use_server_proxy", useServerProxy), ("expires", expires)), ct);
        }

        public Task<SnapshotInfo> CreateSnapshotAsync(string sandboxId, string? name, CancellationToken ct) =>
            _api.PostAsync<SnapshotInfo>(Of(sandboxId, "/snapshots"),
                                         new CreateSnapshotRequest { Name = name }, ct);

        public Task<SnapshotInfo> CreateMemorySnapshotAsync(string sandboxId, string? name,
                                                            CancellationToken ct) =>
            _api.PostAsync<SnapshotInfo>(Of(sandboxId, "/snapshots"),
                                         new CreateSnapshotRequest { Name = name, Memory = true }, ct);

        public async IAsyncEnumerable<LifecycleEvent> WatchEventsAsync(
            string? sandboxId, string? after, [EnumeratorCancellation] CancellationToken ct)
        {
            while (true)
            {
                string? last = null;
                StreamEndedException? broken = null;
                var stream = EventStream.OpenAsync(_api, HttpMethod.Get,
                    Api.Path($"/events", ("sandboxId", sandboxId)), null, ct, after).GetAsyncEnumerator(ct);
                await using (stream.ConfigureAwait(false))
                {
                    while (true)
                    {
                        try
                        {
                            if (!await stream.MoveNextAsync().ConfigureAwait(false))
                                break;
                        }
                        catch (StreamEndedException e)
                        {
                            broken = e;
                            break;
                        }
                        var found = EventStream.Parse<LifecycleEvent>(stream.Current);
                        if (found.Type.Length == 0)
                            found.Type = LifecycleEventTypes.Reset; // {}
                        if (found.Id.Length > 0)
                            last = found.Id;
                        yield return found;
                    }
                }
                after = last ?? throw new StreamEndedException("the stream of events ended", broken);
            }
        }

        public Task<SnapshotInfo> GetSnapshotAsync(string snapshotId, CancellationToken ct) =>
            _api.GetAsync<SnapshotInfo>(Api.Path($"/snapshots/{snapshotId}"), ct);

        public Task<ListSnapshotsResponse> ListSnapshotsAsync(SnapshotFilter? filter, CancellationToken ct)
        {
            filter ??= new SnapshotFilter();
            return _api.GetAsync<ListSnapshotsResponse>(PageQuery("/snapshots", filter.States,
                filter.Page, filter.PageSize, ("sandboxId", filter.SandboxId)), ct);
        }

        public Task DeleteSnapshotAsync(string snapshotId, CancellationToken ct) =>
            _api.DoAsync(HttpMethod.Delete, Api.Path($"/snapshots/{snapshotId}"), null, ct);

        public async Task<IReadOnlyList<SandboxInfo>> ForkSandboxAsync(string sandboxId,
            ForkRequest request, CancellationToken ct) =>
            (await _api.PostAsync<Forks>(Of(sandboxId, "/fork"), request, ct).ConfigureAwait(false)).Items;

        public Task<SandboxInfo> RollbackSandboxAsync(string sandboxId, string snapshotId,
                                                      CancellationToken ct) =>
            _api.PostAsync<SandboxInfo>(Of(sandboxId, "/rollback"),
                new Dictionary<string, string> { ["snapshotId"] = snapshotId }, ct);

        public Task StopSandboxAsync(string sandboxId, CancellationToken ct) =>
            _api.DoAsync(HttpMethod.Post, Of(sandboxId, "/stop"), null, ct);

        public Task StartSandboxAsync(string sandboxId, CancellationToken ct) =>
            _api.DoAsync(HttpMethod.Post, Of(sandboxId, "/start"), null, ct);

        public Task<DiagnosticContent> GetDiagnosticLogsAsync(string sandboxId, string scope,
                                                              CancellationToken ct) =>
            _api.GetAsync<DiagnosticContent>(Of(sandboxId) +
                Api.Path($"/diagnostics/logs", ("scope", scope)), ct);

        public Task<DiagnosticContent> GetDiagnosticEventsAsync(string sandboxId, string scope,
                                                                CancellationToken ct) =>
            _api.GetAsync<DiagnosticContent>(Of(sandboxId) +
                Api.Path($"/diagnostics/events", ("scope", scope)), ct);

        public Task<ImageList> ListImagesAsync(int? page, int? pageSize, CancellationToken ct) =>
            _api.GetAsync<ImageList>(PageQuery("/images", null, page, pageSize), ct);

        public Task<StoredImage> GetImageAsync(string name, CancellationToken ct) =>
            _api.GetAsync<StoredImage>(Api.Path($"/images/{name}"), ct);

        public async Task<StoredImage> PullImageAsync(PullImageRequest request,
            Func<PullProgress, Task>? onProgress, CancellationToken ct)
        {
            StoredImage? done = null;
            await foreach (var data in EventStream.OpenAsync(_api, HttpMethod.Post, "/images/pull",
                                                             request, ct).ConfigureAwait(false))
            {
                var e = EventStream.Parse<PullEvent>(data);
                if (e.Type == "error")
                    throw new SandboxApiException(e.Message ?? "the pull failed", 200, null, null,
                                                  new SandboxError(e.Code ?? "", e.Message));
                if (e.Type == "done")
                    done = e.Image;
                else if (e.Type == "progress" && onProgress != null)
                    await onProgress(e).ConfigureAwait(false);
            }
            return done ?? throw new StreamEndedException("the pull's stream ended before the pull");
        }

        public async Task<StoredImage> ImportImageAsync(Stream archive, string? name, CancellationToken ct)
        {
            var (body, _) = await _api.CallAsync(HttpMethod.Post,
                Api.Path($"/images/import", ("name", name)),
                () => FilesAdapter.StreamBody(archive, "application/x-tar"), ct, false)
                .ConfigureAwait(false);
            return Api.Parse<StoredImage>(body, "import of an image");
        }

        public Task<Stream> ExportImageAsync(string name, CancellationToken ct) =>
            FilesAdapter.OpenStreamAsync(_api, Api.Path($"/images/{name}/export"), ct);

        public Task DeleteImageAsync(string name, CancellationToken ct) =>
            _api.DoAsync(HttpMethod.Delete, Api.Path($"/images/{name}"), null, ct);

        public Task<Pool> CreatePoolAsync(CreatePoolRequest request, CancellationToken ct) =>
            _api.PostAsync<Pool>("/pools", request, ct);

        public Task<Pool> GetPoolAsync(string name, CancellationToken ct) =>
            _api.GetAsync<Pool>(Api.Path($"/pools/{name}"), ct);

        public async Task<IReadOnlyList<Pool>> ListPoolsAsync(CancellationToken ct) =>
            (await _api.GetAsync<PoolList>("/pools", ct).ConfigureAwait(false)).Items;

        public Task<Pool> UpdatePoolAsync(string name, CapacitySpec capacity, CancellationToken ct) =>
            _api.AskAsync<Pool>(HttpMethod.Put, Api.Path($"/pools/{name}"),
                                new UpdatePoolRequest { CapacitySpec = capacity }, ct);

        public Task DeletePoolAsync(string name, CancellationToken ct) =>
            _api.DoAsync(HttpMethod.Delete, Api.Path($"/pools/{name}"), null, ct);

        public Task<NamedVolumeList> ListVolumesAsync(int? page, int? pageSize, CancellationToken ct) =>
            _api.GetAsync<NamedVolumeList>(PageQuery("/volumes", null, page, pageSize), ct);

        public Task<NamedVolume> GetVolumeAsync(string name, CancellationToken ct) =>
            _api.GetAsync<NamedVolume>(Api.Path($"/volumes/{name}"), ct);

        public Task<NamedVolume> CreateVolumeAsync(CreateVolumeRequest request, CancellationToken ct) =>
            _api.PostAsync<NamedVolume>("/volumes", request, ct);

        public Task DeleteVolumeAsync(string name, CancellationToken ct) =>
            _api.DoAsync(HttpMethod.Delete, Api.Path($"/volumes/{name}"), null, ct);

        private sealed class Forks
        {
            [JsonPropertyName("items")]
            public IReadOnlyList<SandboxInfo> Items { get; set; } = Array.Empty<SandboxInfo>();
        }

        private sealed class PullEvent : PullProgress
        {
            [JsonPropertyName("type")]
            public string Type { get; set; } = "";

            [JsonPropertyName("code")]
            public string? Code { get; set; }

            [JsonPropertyName("image")]
            public StoredImage? Image { get; set; }
        }
    }
}
