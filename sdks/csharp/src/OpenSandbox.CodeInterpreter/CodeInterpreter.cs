using System;
using System.Threading;
using System.Threading.Tasks;
using OpenSandbox.CodeInterpreter.Services;
using OpenSandbox.Core;
using OpenSandbox.Services;

namespace OpenSandbox.CodeInterpreter
{
    /// <summary>What an interpreter is made of.</summary>
    public class CodeInterpreterCreateOptions
    {
        /// <summary>Replaces the code service, in tests say.</summary>
        public Func<Sandbox, ICodes>? CodesFactory { get; set; }
    }

    /// <summary>Runs code cells in a sandbox.</summary>
    public sealed class CodeInterpreter
    {
        private CodeInterpreter(Sandbox sandbox, ICodes codes)
        {
            Sandbox = sandbox;
            Codes = codes;
        }

        /// <summary>Makes an interpreter of a sandbox.</summary>
        public static Task<CodeInterpreter> CreateAsync(Sandbox sandbox,
            CodeInterpreterCreateOptions? options = null, CancellationToken cancellationToken = default)
        {
            if (sandbox == null)
                throw new InvalidArgumentException("sandbox must not be null");
            cancellationToken.ThrowIfCancellationRequested();
            var codes = options?.CodesFactory?.Invoke(sandbox) ?? new CodesAdapter(sandbox);
            return Task.FromResult(new CodeInterpreter(sandbox, codes));
        }

        /// <summary>The sandbox.</summary>
        public Sandbox Sandbox { get; }

        /// <summary>Id of the sandbox.</summary>
        public string Id => Sandbox.Id;

        /// <summary>Files of the sandbox.</summary>
        public ISandboxFiles Files => Sandbox.Files;

        /// <summary>Commands of the sandbox.</summary>
        public IExecdCommands Commands => Sandbox.Commands;

        /// <summary>Metrics of the sandbox.</summary>
        public IExecdMetrics Metrics => Sandbox.Metrics;

        /// <summary>Contexts and cells.</summary>
        public ICodes Codes { get; }
    }
}
