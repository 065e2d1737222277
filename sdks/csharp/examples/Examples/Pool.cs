using System;
using System.Threading.Tasks;

namespace OpenSandbox.Examples
{
    /// <summary>Sandboxes that were made before they are needed.</summary>
    internal static class Pool
    {
        internal static async Task RunAsync()
        {
            await using var pool = new SandboxPool(new SandboxPoolOptions
            {
                Create = new SandboxCreateOptions { Image = "python:3.12" },
                MaxIdle = 2,
                Prepare = (made, ct) => made.Commands.RunAsync("mkdir -p /work", cancellationToken: ct),
            });
            await using var sandbox = await pool.AcquireAsync(TimeSpan.FromMinutes(5));
            Console.WriteLine((await sandbox.Commands.RunAsync("cd /work && echo from the pool")).Text);
            await sandbox.KillAsync();
        }
    }
}
