using System;
using System.IO;
using System.Linq;
using System.Threading.Tasks;

namespace OpenSandbox.Examples
{
    /// <summary>Cells that share variables, and a chart that comes back as a picture.</summary>
    internal static class CodeChart
    {
        private const string Chart = @"
class Chart:
    def _repr_svg_(self):
        bars = ''.join(f'<rect x=""{10 * n}"" y=""{50 - v}"" width=""8"" height=""{v}""/>'
                       for n, v in enumerate(values))
        return f'<svg xmlns=""http://www.w3.org/2000/svg"">{bars}</svg>'

Chart()
";

        internal static async Task RunAsync()
        {
            await using var sandbox = await Sandbox.CreateAsync(new SandboxCreateOptions
            {
                Image = "opensandbox/code-interpreter:v1.0.2",
            });
            var interpreter = await CodeInterpreter.CodeInterpreter.CreateAsync(sandbox);
            await interpreter.Codes.RunAsync("values = [n * n for n in range(7)]");
            var sum = await interpreter.Codes.RunAsync("sum(values)");
            Console.WriteLine($"sum: {sum.Results.Single().Text}");
            var chart = await interpreter.Codes.RunAsync(Chart);
            var svg = chart.Results.Select(r => r.Form("image/svg+xml")).First(form => form != null)!;
            File.WriteAllText("chart.svg", svg);
            Console.WriteLine($"chart.svg has {svg.Length} characters");
            await sandbox.KillAsync();
        }
    }
}
