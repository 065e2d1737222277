using System.Collections.Generic;
using System.Net.Http;
using System.Text.Json.Serialization;
using System.Threading;
using System.Threading.Tasks;
using OpenSandbox.CodeInterpreter.Models;
using OpenSandbox.Core;
using OpenSandbox.Internal;
using OpenSandbox.Models;

namespace OpenSandbox.CodeInterpreter.Models
{
    /// <summary>Languages of code cells.</summary>
    public static class SupportedLanguage
    {
#pragma warning disable CS1591 // the names say it
        public const string Python = "python";
        public const string Java = "java";
        public const string Go = "go";
        public const string TypeScript = "typescript";
        public const string JavaScript = "javascript";
        public const string Bash = "bash";
#pragma warning restore CS1591
    }

    /// <summary>A kernel with variables of its own.</summary>
    public class CodeContext
    {
        /// <summary>Its id; null is the default context of the language.</summary>
        [JsonPropertyName("id")]
        public string? Id { get; set; }

        /// <summary>Its language.</summary>
        [JsonPropertyName("language")]
        public string Language { get; set; } = "";
    }

    /// <summary>A cell to run.</summary>
    public class RunCodeRequest
    {
        /// <summary>The code.</summary>
        [JsonPropertyName("code")]
        public string Code { get; set; } = "";

        /// <summary>Where it runs.</summary>
        [JsonPropertyName("context")]
        public CodeContext Context { get; set; } = new CodeContext { Language = SupportedLanguage.Python };
    }

    /// <summary>How to run a cell: in Context, or in the default context of Language.</summary>
    public class RunCodeOptions
    {
        /// <summary>The context.</summary>
        public CodeContext? Context { get; set; }

        /// <summary>The language; not together with Context.</summary>
        public string? Language { get; set; }

        /// <summary>Called while the cell runs.</summary>
        public ExecutionHandlers? Handlers { get; set; }
    }
}

namespace OpenSandbox.CodeInterpreter.Services
{
    /// <summary>Contexts and cells.</summary>
    public interface ICodes
    {
        /// <summary>Makes a context.</summary>
        Task<CodeContext> CreateContextAsync(string language, CancellationToken cancellationToken = default);

        /// <summary>A context.</summary>
        Task<CodeContext> GetContextAsync(string contextId, CancellationToken cancellationToken = default);

        /// <summary>The contexts of a language, or of all.</summary>
        Task<IReadOnlyList<CodeContext>> ListContextsAsync(string? language = null, CancellationToken cancellationToken = default);

        /// <summary>Ends a context.</summary>
        Task DeleteContextAsync(string contextId, CancellationToken cancellationToken = default);

        /// <summary>Ends all contexts of a language.</summary>
        Task DeleteContextsAsync(string language, CancellationToken cancellationToken = default);

        /// <summary>Runs a cell to its end; python unless options say otherwise.</summary>
        Task<Execution> RunAsync(string code, RunCodeOptions? options = null, CancellationToken cancellationToken = default);

        /// <summary>Runs a cell and yields its events.</summary>
        IAsyncEnumerable<ServerStreamEvent> RunStreamAsync(RunCodeRequest request, CancellationToken cancellationToken = default);

        /// <summary>Interrupts the cell of an execution or context id.</summary>
        Task InterruptAsync(string id, CancellationToken cancellationToken = default);
    }

    /// <summary>Contexts and cells over HTTP.</summary>
    internal sealed class CodesAdapter : ICodes
    {
        private readonly Api _api;

        internal CodesAdapter(Sandbox sandbox) => _api = new Api(sandbox.ConnectionConfig,
            $"{sandbox.ConnectionConfig.Scheme}://{sandbox.ExecdEndpoint.EndpointAddress}",
            sandbox.ExecdEndpoint.Headers);

        public Task<CodeContext> CreateContextAsync(string language, CancellationToken ct)
        {
            InvalidArgumentException.NeedText(language, "language");
            return _api.PostAsync<CodeContext>("/code/context",
                new Dictionary<string, string> { ["language"] = language }, ct);
        }

        public Task<CodeContext> GetContextAsync(string contextId, CancellationToken ct)
        {
            InvalidArgumentException.NeedText(contextId, "context id");
            return _api.GetAsync<CodeContext>(Api.Path($"/code/contexts/{contextId}"), ct);
        }

        public async Task<IReadOnlyList<CodeContext>> ListContextsAsync(string? language,
                                                                        CancellationToken ct) =>
            await _api.GetAsync<List<CodeContext>>(Api.Path($"/code/contexts", ("language", language)), ct)
                .ConfigureAwait(false);

        public Task DeleteContextAsync(string contextId, CancellationToken ct)
        {
            InvalidArgumentException.NeedText(contextId, "context id");
            return _api.DoAsync(HttpMethod.Delete, Api.Path($"/code/contexts/{contextId}"), null, ct);
        }

        public Task DeleteContextsAsync(string language, CancellationToken ct)
        {
            InvalidArgumentException.NeedText(language, "language");
            return _api.DoAsync(HttpMethod.Delete, Api.Path($"/code/contexts", ("language", language)),
                                null, ct);
        }

        public Task<Execution> RunAsync(string code, RunCodeOptions? options, CancellationToken ct)
        {
            InvalidArgumentException.NeedText(code, "code");
            if (options?.Context != null && options.Language != null &&
                options.Language != options.Context.Language)
                throw new InvalidArgumentException("Context has another language than Language");
            var context = options?.Context ?? new CodeContext
                { Language = options?.Language ?? SupportedLanguage.Python };
            return Runs.RunAsync(_api, "/code", new RunCodeRequest { Code = code, Context = context },
                                 options?.Handlers, ct);
        }

        public IAsyncEnumerable<ServerStreamEvent> RunStreamAsync(RunCodeRequest request,
                                                                  CancellationToken ct)
        {
            InvalidArgumentException.NeedText(request.Code, "code");
            return Runs.EventsAsync(_api, "/code", request, ct);
        }

        public Task InterruptAsync(string id, CancellationToken ct)
        {
            InvalidArgumentException.NeedText(id, "id");
            return _api.DoAsync(HttpMethod.Delete, Api.Path($"/code", ("id", id)), null, ct);
        }
    }
}
