using System;
using System.Linq;
using System.Threading.Tasks;
using OpenSandbox;
using OpenSandbox.CodeInterpreter;
using OpenSandbox.Core;

// Creates a sandbox, runs a command and a cell, ends it. OPEN_SANDBOX_DOMAIN and OPEN_SANDBOX_API_KEY
// name the server.
internal static class Program
{
    private static async Task<int> Main()
    {
        try
        {
            await using var sandbox = await Sandbox.CreateAsync(new SandboxCreateOptions
            {
                Image = "opensandbox/code-interpreter:v1.0.2",
                Entrypoint = new[] { "/opt/opensandbox/code-interpreter.sh" },
                TimeoutSeconds = 10 * 60,
            });
            var run = await sandbox.Commands.RunAsync("echo 'Hello Sandbox!'");
            Console.WriteLine(run.Logs.Stdout.FirstOrDefault()?.Text);
            var interpreter = await CodeInterpreter.CreateAsync(sandbox);
            var cell = await interpreter.Codes.RunAsync("6 * 7");
            Console.WriteLine(cell.Results.First().Text);
            await sandbox.KillAsync();
            return 0;
        }
        catch (SandboxException e)
        {
            Console.Error.WriteLine($"[{e.Error.Code}] {e.Message}");
            return 1;
        }
    }
}
