using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Net.Http;
using System.Net.Http.Headers;
using System.Net.Sockets;
using System.Text;
using System.Text.Json;
using System.Threading;
using System.Threading.Tasks;
using OpenSandbox.Config;
using OpenSandbox.Core;

namespace OpenSandbox.Internal
{
    /// <summary>Sends requests to one base URL.</summary>
    internal sealed class Api
    {
        internal const int ErrorBytesMax = 64 << 10;
        internal const int AnswerBytesMax = 64 << 20;

        internal static readonly JsonSerializerOptions Json = new JsonSerializerOptions
        {
            IgnoreNullValues = true,
            Encoder = System.Text.Encodings.Web.JavaScriptEncoder.UnsafeRelaxedJsonEscaping,
        };

        /// <summary>An earlier try of a create with an idempotency key is under way.</summary>
        private const string InProgress = "IDEMPOTENCY::IN_PROGRESS";

        private static readonly int[] Transient = { 429, 502, 503 };
        private static readonly HttpMethod[] Repeatable =
            { HttpMethod.Get, HttpMethod.Put, HttpMethod.Delete };
        private static readonly Random Jitter = new Random();

        private readonly ConnectionConfig _config;
        private readonly HttpClient _client;
        private readonly IReadOnlyDictionary<string, string> _headers;

        internal Api(ConnectionConfig config, string baseUrl,
                     IReadOnlyDictionary<string, string>? headers = null, string? apiKey = null)
        {
            _config = config;
            _client = config.GetHttpClient();
            BaseUrl = baseUrl.TrimEnd('/');
            var all = new Dictionary<string, string>(StringComparer.OrdinalIgnoreCase);
            foreach (var pair in config.Headers)
                all[pair.Key] = pair.Value;
            if (!string.IsNullOrEmpty(apiKey))
                all["OPEN-SANDBOX-API-KEY"] = apiKey!;
            foreach (var pair in headers ?? new Dictionary<string, string>())
                all[pair.Key] = pair.Value;
            if (!all.ContainsKey("User-Agent"))
                all["User-Agent"] = config.UserAgent;
            _headers = all;
        }

        /// <summary>The same connection with all paths below one.</summary>
        internal Api Below(string path) => new Api(_config, BaseUrl + path, _headers);

        internal string BaseUrl { get; }
        internal TimeSpan StreamIdleTimeout => _config.Options.StreamIdleTimeout;
        internal IReadOnlyDictionary<string, string> Headers => _headers;

        /// <summary>A path with each argument escaped, and a query of the values that are not null.</summary>
        internal static string Path(FormattableString path, params (string Name, object? Value)[] query)
        {
            var text = string.Format(System.Globalization.CultureInfo.InvariantCulture, path.Format,
                path.GetArguments().Select(a => (object)Uri.EscapeDataString(Text(a))).ToArray());
            var pairs = query.Where(q => q.Value != null)
                .Select(q => Uri.EscapeDataString(q.Name) + "=" + Uri.EscapeDataString(Text(q.Value)));
            var all = string.Join("&", pairs);
            return all.Length > 0 ? text + "?" + all : text;
        }

        private static string Text(object? value) => value is bool truth
            ? (truth ? "true" : "false")
            : Convert.ToString(value, System.Globalization.CultureInfo.InvariantCulture) ?? "";

        internal static HttpContent JsonBody(object value) =>
            new ByteArrayContent(JsonSerializer.SerializeToUtf8Bytes(value, value.GetType(), Json))
            {
                Headers = { ContentType = new MediaTypeHeaderValue("application/json") },
            };

        /// <summary>Sends a request and returns its answer once the head is there and is no error.</summary>
        internal Task<HttpResponseMessage> OpenAsync(
            HttpMethod method, string path, Func<HttpContent?>? body, CancellationToken ct,
            IReadOnlyDictionary<string, string>? headers = null) =>
            RepeatAsync(Repeatable.Contains(method), () => OpenOnceAsync(method, path, body, ct, headers, true), ct);

        private async Task<T> RepeatAsync<T>(bool repeatable, Func<Task<T>> call, CancellationToken ct)
        {
            for (var n = 0; ; n++)
            {
                try
                {
                    return await call().ConfigureAwait(false);
                }
                catch (SandboxApiException e)
                    when (n < _config.Options.MaxRetries && repeatable &&
                          (Transient.Contains(e.StatusCode ?? 0) || e.Error.Code == InProgress))
                {
                    await PauseAsync(n, e.RetryAfter, ct).ConfigureAwait(false);
                }
                catch (SandboxInternalException e)
                    when (n < _config.Options.MaxRetries && MayRepeat(e, repeatable))
                {
                    await PauseAsync(n, null, ct).ConfigureAwait(false);
                }
            }
        }

        /// <summary>A request that surely was not sent may be repeated, whatever it does.</summary>
        private static bool MayRepeat(Exception e, bool repeatable) =>
            repeatable ? e.InnerException is HttpRequestException || e.InnerException is IOException
                : e.InnerException?.InnerException is SocketException socket &&
                  socket.SocketErrorCode == SocketError.ConnectionRefused;

        private Task PauseAsync(int n, TimeSpan? asked, CancellationToken ct)
        {
            double spread;
            lock (Jitter)
                spread = 0.75 + Jitter.NextDouble() / 2;
            var pause = TimeSpan.FromMilliseconds(
                Math.Min(10000, _config.Options.RetryBackoff.TotalMilliseconds * (1 << n)) * spread);
            if (asked > pause && asked < TimeSpan.FromSeconds(30))
                pause = asked.Value;
            return Task.Delay(pause, ct);
        }

        private async Task<HttpResponseMessage> OpenOnceAsync(
            HttpMethod method, string path, Func<HttpContent?>? body, CancellationToken ct,
            IReadOnlyDictionary<string, string>? headers, bool timed)
        {
            using var request = new HttpRequestMessage(method, BaseUrl + path);
            request.Content = body?.Invoke();
            foreach (var pair in _headers.Concat(headers ?? new Dictionary<string, string>()))
                request.Headers.TryAddWithoutValidation(pair.Key, pair.Value);
            using var limit = CancellationTokenSource.CreateLinkedTokenSource(ct);
            if (timed)
                limit.CancelAfter(_config.RequestTimeout);
            HttpResponseMessage answer;
            try
            {
                answer = await _client.SendAsync(request, HttpCompletionOption.ResponseHeadersRead,
                                                 limit.Token).ConfigureAwait(false);
            }
            catch (OperationCanceledException e) when (!ct.IsCancellationRequested)
            {
                throw new SandboxInternalException(
                    $"{method} {path}: no answer within {_config.RequestTimeout.TotalSeconds} s", e);
            }
            catch (HttpRequestException e)
            {
                throw new SandboxInternalException($"{method} {BaseUrl}{path}: {Reason(e)}", e);
            }
            if (answer.IsSuccessStatusCode)
                return answer;
            using (answer)
                throw await FailureAsync(answer, method, path).ConfigureAwait(false);
        }

        private static string Reason(Exception e) =>
            e.InnerException == null ? e.Message : e.InnerException.Message;

        private async Task<SandboxApiException> FailureAsync(HttpResponseMessage answer,
                                                             HttpMethod method, string path)
        {
            var text = "";
            try
            {
                using var limit = new CancellationTokenSource(_config.RequestTimeout);
                using var body = await answer.Content.ReadAsStreamAsync().ConfigureAwait(false);
                text = Encoding.UTF8.GetString(
                    await ReadAllAsync(body, ErrorBytesMax, true, limit.Token).ConfigureAwait(false));
            }
            catch (Exception e) when (e is IOException || e is OperationCanceledException ||
                                      e is HttpRequestException)
            {
                // The status alone is the answer then.
            }
            var error = ErrorOf(text);
            var status = (int)answer.StatusCode;
            var message = error?.Message ?? $"{method} {path}: status {status} without an error document";
            return new SandboxApiException(message, status, HeaderOf(answer, "X-Request-ID"), text, error)
            {
                RetryAfter = answer.Headers.RetryAfter?.Delta,
            };
        }

        /// <summary>{code, message}, also inside {"detail": ...}; null when the text is none.</summary>
        internal static SandboxError? ErrorOf(string text)
        {
            try
            {
                using var document = JsonDocument.Parse(text);
                var root = document.RootElement;
                if (root.ValueKind == JsonValueKind.Object &&
                    root.TryGetProperty("detail", out var detail))
                {
                    if (detail.ValueKind == JsonValueKind.String)
                        return new SandboxError(SandboxError.UnexpectedResponse, detail.GetString());
                    root = detail;
                }
                if (root.ValueKind != JsonValueKind.Object ||
                    !root.TryGetProperty("code", out var code) ||
                    code.ValueKind != JsonValueKind.String)
                    return null;
                var message = root.TryGetProperty("message", out var m) &&
                              m.ValueKind == JsonValueKind.String ? m.GetString() : null;
                return new SandboxError(code.GetString() ?? "", message);
            }
            catch (JsonException)
            {
                return null;
            }
        }

        internal static string? HeaderOf(HttpResponseMessage answer, string name) =>
            answer.Headers.TryGetValues(name, out var values) ? values.FirstOrDefault() : null;

        internal static async Task<byte[]> ReadAllAsync(Stream body, int most, bool cut,
                                                        CancellationToken ct)
        {
            using var all = new MemoryStream();
            var piece = new byte[16 << 10];
            int n;
            while ((n = await body.ReadAsync(piece, 0, piece.Length, ct).ConfigureAwait(false)) > 0)
            {
                if (all.Length + n > most)
                {
                    if (cut)
                        break;
                    throw new SandboxInternalException($"the answer is larger than {most} bytes");
                }
                all.Write(piece, 0, n);
            }
            return all.ToArray();
        }

        /// <summary>Sends a request whose answer is small, and returns all of it.</summary>
        internal Task<(byte[] Body, HttpResponseMessage Head)> CallAsync(
            HttpMethod method, string path, Func<HttpContent?>? body, CancellationToken ct,
            bool timed = true) =>
            RepeatAsync(Repeatable.Contains(method), () => CallOnceAsync(method, path, body, ct, timed), ct);

        /// <summary>Posts what the server does once for a key, so that it may be repeated.</summary>
        internal async Task<T> PostOnceAsync<T>(string path, object body, string key, CancellationToken ct)
            where T : class
        {
            var headers = new Dictionary<string, string> { ["Idempotency-Key"] = key };
            var (bytes, _) = await RepeatAsync(true, () => CallOnceAsync(HttpMethod.Post, path,
                () => JsonBody(body), ct, true, headers), ct).ConfigureAwait(false);
            return Parse<T>(bytes, $"POST {path}");
        }

        private async Task<(byte[], HttpResponseMessage)> CallOnceAsync(
            HttpMethod method, string path, Func<HttpContent?>? body, CancellationToken ct, bool timed,
            IReadOnlyDictionary<string, string>? headers = null)
        {
            using var limit = CancellationTokenSource.CreateLinkedTokenSource(ct);
            using var answer = await OpenOnceAsync(method, path, body, ct, headers, timed)
                .ConfigureAwait(false);
            if (timed)
                limit.CancelAfter(_config.RequestTimeout);
            try
            {
                using var stream = await answer.Content.ReadAsStreamAsync().ConfigureAwait(false);
                return (await ReadAllAsync(stream, AnswerBytesMax, false, limit.Token)
                            .ConfigureAwait(false), answer);
            }
            catch (OperationCanceledException e) when (!ct.IsCancellationRequested)
            {
                throw new SandboxInternalException($"{method} {path}: the answer took longer than " +
                                                   $"{_config.RequestTimeout.TotalSeconds} s", e);
            }
            catch (Exception e) when (e is IOException || e is HttpRequestException)
            {
                throw new SandboxInternalException($"{method} {path}: {Reason(e)}", e);
            }
        }

        internal async Task<T> AskAsync<T>(HttpMethod method, string path, object? body,
                                           CancellationToken ct) where T : class
        {
            var (bytes, _) = await CallAsync(method, path, body == null ? null :
                (Func<HttpContent?>)(() => JsonBody(body)), ct).ConfigureAwait(false);
            return Parse<T>(bytes, $"{method} {path}");
        }

        internal static T Parse<T>(ReadOnlySpan<byte> bytes, string of) where T : class
        {
            try
            {
                return JsonSerializer.Deserialize<T>(bytes, Json) ??
                       throw new SandboxInternalException($"{of}: the answer is empty");
            }
            catch (JsonException e)
            {
                throw new SandboxInternalException($"{of}: the answer is not what was expected: " +
                                                   e.Message, e);
            }
        }

        internal Task<T> GetAsync<T>(string path, CancellationToken ct) where T : class =>
            AskAsync<T>(HttpMethod.Get, path, null, ct);

        internal Task<T> PostAsync<T>(string path, object? body, CancellationToken ct)
            where T : class => AskAsync<T>(HttpMethod.Post, path, body, ct);

        internal async Task DoAsync(HttpMethod method, string path, object? body, CancellationToken ct) =>
            await CallAsync(method, path, body == null ? null :
                (Func<HttpContent?>)(() => JsonBody(body)), ct).ConfigureAwait(false);
    }
}
