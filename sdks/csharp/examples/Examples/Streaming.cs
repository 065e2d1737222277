using System;
using System.IO;
using System.Text;
using System.Threading.Tasks;
using OpenSandbox.Models;

namespace OpenSandbox.Examples
{
    /// <summary>Output as it comes, by an iterator; and input while a command runs.</summary>
    internal static class Streaming
    {
        internal static async Task RunAsync()
        {
            await using var sandbox = await Sandbox.CreateAsync(new SandboxCreateOptions { Image = "python:3.12" });
            var command = "for n in 1 2 3; do echo line $n; sleep 0.1; done";
            await foreach (var e in sandbox.Commands.RunStreamAsync(command))
                if (e.Type == "stdout")
                    Console.WriteLine(e.Text);

            await foreach (var e in sandbox.Commands.RunStreamAsync("sort",
                                                                    new RunCommandOptions { StdinOpen = true }))
            {
                if (e.Type == "init")
                    await sandbox.Commands.WriteInputAsync(e.Text!,
                        new MemoryStream(Encoding.UTF8.GetBytes("pear\napple\n")), true);
                else if (e.Type == "stdout")
                    Console.WriteLine(e.Text);
            }
            await sandbox.KillAsync();
        }
    }
}
