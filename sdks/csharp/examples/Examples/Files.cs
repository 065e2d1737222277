using System;
using System.IO;
using System.Threading.Tasks;
using OpenSandbox.Models;

namespace OpenSandbox.Examples
{
    /// <summary>Files: streams both ways, lines, and a directory as a tar archive.</summary>
    internal static class Files
    {
        internal static async Task RunAsync()
        {
            await using var sandbox = await Sandbox.CreateAsync(new SandboxCreateOptions { Image = "python:3.12" });
            await sandbox.Files.WriteFilesAsync(new[]
            {
                new WriteEntry { Path = "/tmp/in/lines.txt", Data = "first\nsecond\nthird\n", Mode = 644 },
                new WriteEntry { Path = "/tmp/in/large.bin", Data = new MemoryStream(new byte[1000000]) },
            });
            var line = await sandbox.Files.ReadFileAsync("/tmp/in/lines.txt",
                                                         new ReadFileOptions { Offset = 2, Limit = 1 });
            Console.WriteLine($"line 2: {line}");

            long bytes = 0;
            await foreach (var piece in sandbox.Files.ReadBytesStreamAsync("/tmp/in/large.bin"))
                bytes += piece.Length;
            Console.WriteLine($"large.bin has {bytes} bytes");

            using (var tar = await sandbox.Files.DownloadDirectoryAsync("/tmp/in"))
                await sandbox.Files.UploadDirectoryAsync("/tmp/copy", tar);
            foreach (var file in await sandbox.Files.SearchAsync(
                         new SearchEntry { Path = "/tmp/copy", Pattern = "*.txt" }))
                Console.WriteLine($"{file.Path} {file.Size}");
            await sandbox.KillAsync();
        }
    }
}
