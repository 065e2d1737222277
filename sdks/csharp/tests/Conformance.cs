using System;
using System.Collections.Generic;
using System.Diagnostics;
using System.IO;
using System.Linq;
using System.Net.Http;
using System.Text;
using System.Text.Json;
using System.Threading.Tasks;
using OpenSandbox.Config;

namespace OpenSandbox.Tests
{
    /// <summary>Runs the cases of sdks/conformance, whose server.py judges requests and results.</summary>
    internal sealed class Conformance : IDisposable
    {
        private readonly Process _server;
        private readonly HttpClient _http = new HttpClient();
        private readonly string _control;

        internal Conformance(string directory)
        {
            _server = Process.Start(new ProcessStartInfo("/usr/bin/python3",
                Path.Combine(directory, "server.py"))
            {
                RedirectStandardInput = true, RedirectStandardOutput = true, UseShellExecute = false,
            }) ?? throw new Exception("server.py does not start");
            using var hello = JsonDocument.Parse(_server.StandardOutput.ReadLine() ?? "{}");
            _control = hello.RootElement.GetProperty("control").GetString()!;
        }

        public void Dispose()
        {
            _server.StandardInput.Close();
            _server.WaitForExit(5000);
            _http.Dispose();
        }

        private async Task<JsonElement> PostAsync(string path, object body)
        {
            using var content = new StringContent(JsonSerializer.Serialize(body), Encoding.UTF8,
                                                  "application/json");
            using var answer = await _http.PostAsync(_control + path, content);
            return JsonDocument.Parse(await answer.Content.ReadAsStringAsync()).RootElement;
        }

        /// <summary>All cases of a mode, each a test; `names` replaces what a real server needs.</summary>
        internal async Task RunAsync(Tap tap, string mode, object? names = null)
        {
            var list = JsonDocument.Parse(await _http.GetStringAsync(_control + "/cases")).RootElement;
            foreach (var entry in list.GetProperty("cases").EnumerateArray())
            {
                if (!entry.GetProperty("modes").EnumerateArray().Any(m => m.GetString() == mode))
                    continue;
                var id = entry.GetProperty("id").GetString()!;
                await tap.TestAsync($"{mode}: {id}", () => CaseAsync(id, mode, names));
            }
        }

        private async Task CaseAsync(string id, string mode, object? names)
        {
            var open = await PostAsync("/sessions", names == null
                ? (object)new { @case = id, mode } : new { @case = id, mode, names });
            var session = open.GetProperty("session").ToString();
            var script = open.GetProperty("case");
            var problems = new List<string>();
            var before = SetEnvironment(script);
            var operations = new Operations(script.GetProperty("config"));
            try
            {
                var n = 0;
                foreach (var step in script.GetProperty("steps").EnumerateArray())
                {
                    var verdict = await PostAsync($"/sessions/{session}/steps/{n++}",
                                                  await operations.StepAsync(step));
                    if (!verdict.GetProperty("ok").GetBoolean())
                        problems.Add(verdict.GetProperty("problems").ToString());
                }
            }
            finally
            {
                await operations.DisposeAsync();
                foreach (var pair in before)
                    Environment.SetEnvironmentVariable(pair.Key, pair.Value);
            }
            var end = await PostAsync($"/sessions/{session}/finish", new { });
            if (!end.GetProperty("ok").GetBoolean())
                problems.Add(end.GetProperty("problems").ToString());
            if (end.GetProperty("open_connections").GetInt32() != 0)
                problems.Add("open connections: " + end.GetProperty("open_connections"));
            if (problems.Count > 0)
                throw new Exception(string.Join("\n", problems));
        }

        private static Dictionary<string, string?> SetEnvironment(JsonElement script)
        {
            var before = new[] { "DOMAIN", "API_KEY", "PROTOCOL" }.Select(n => "OPEN_SANDBOX_" + n)
                .ToDictionary(n => n, Environment.GetEnvironmentVariable);
            foreach (var name in before.Keys)
                Environment.SetEnvironmentVariable(name, null);
            if (script.TryGetProperty("env", out var env))
                foreach (var pair in env.EnumerateObject())
                    Environment.SetEnvironmentVariable(pair.Name, pair.Value.GetString());
            return before!;
        }
    }
}
