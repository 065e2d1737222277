using System;
using System.Collections.Generic;
using System.Threading.Tasks;
using OpenSandbox.Core;

namespace OpenSandbox.Examples
{
    /// <summary>dotnet run --project examples/Examples NAME. OPEN_SANDBOX_DOMAIN and OPEN_SANDBOX_API_KEY name the
    /// server.</summary>
    internal static class Program
    {
        private static readonly Dictionary<string, Func<Task>> All = new Dictionary<string, Func<Task>>
        {
            ["streaming"] = Streaming.RunAsync, ["files"] = Files.RunAsync, ["code"] = CodeChart.RunAsync,
            ["pool"] = Pool.RunAsync, ["egress"] = Egress.RunAsync, ["vault"] = Vault.RunAsync,
        };

        private static async Task<int> Main(string[] arguments)
        {
            if (arguments.Length != 1 || !All.TryGetValue(arguments[0], out var run))
            {
                Console.Error.WriteLine("give one of: " + string.Join(", ", All.Keys));
                return 2;
            }
            try
            {
                await run();
                return 0;
            }
            catch (SandboxException e)
            {
                Console.Error.WriteLine($"[{e.Error.Code}] {e.Message}");
                return 1;
            }
        }
    }
}
