using System;
using System.Threading.Tasks;

namespace OpenSandbox.Tests
{
    internal static class Program
    {
        /// <summary>Tests DIRECTORY: the cases of sdks/conformance in DIRECTORY; also against the server
        /// that OPEN_SANDBOX_DOMAIN names, if any. Prints TAP.</summary>
        private static async Task<int> Main(string[] arguments)
        {
            var tap = new Tap();
            var domain = Environment.GetEnvironmentVariable("OPEN_SANDBOX_DOMAIN");
            using (var cases = new Conformance(arguments[0]))
            {
                await cases.RunAsync(tap, "scripted");
                if (domain != null)
                    await cases.RunAsync(tap, "real", new
                    {
                        image = "host",
                        config = new
                        {
                            domain, api_key = Environment.GetEnvironmentVariable("OPEN_SANDBOX_API_KEY"),
                        },
                    });
            }
            if (domain != null)
            {
                await new RealServer().RunAsync(tap);
                await new Faults().RunAsync(tap);
            }
            return tap.End();
        }
    }
}
