using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Net;
using System.Net.Sockets;
using System.Text;
using System.Threading;
using System.Threading.Tasks;
using OpenSandbox.Config;
using OpenSandbox.Core;
using OpenSandbox.Models;

namespace OpenSandbox.Tests
{
    /// <summary>A TCP listener before the real server: passes bytes on, answers 502 for some requests, stops in
    /// the middle, and counts connections.</summary>
    internal sealed class Front : IDisposable
    {
        private readonly TcpListener _listener = new TcpListener(IPAddress.Loopback, 0);
        private readonly HashSet<TcpClient> _open = new HashSet<TcpClient>();
        private readonly string _target;
        internal int Refuse;
        internal volatile bool Freeze;

        internal Front(string target)
        {
            _target = target;
            _listener.Start();
            Domain = "127.0.0.1:" + ((IPEndPoint)_listener.LocalEndpoint).Port;
            Task.Run(AcceptAsync);
        }

        internal string Domain { get; }

        internal int Open
        {
            get
            {
                lock (_open)
                    return _open.Count;
            }
        }

        public void Dispose()
        {
            _listener.Stop();
            Cut();
        }

        internal void Cut()
        {
            lock (_open)
                foreach (var client in _open)
                    client.Client.Dispose();
        }

        private async Task AcceptAsync()
        {
            try
            {
                while (true)
                {
                    var client = await _listener.AcceptTcpClientAsync();
                    _ = Task.Run(() => ServeAsync(client));
                }
            }
            catch (Exception e) when (e is ObjectDisposedException || e is SocketException)
            {
                // The test is over.
            }
        }

        private async Task ServeAsync(TcpClient client)
        {
            lock (_open)
                _open.Add(client);
            try
            {
                using var server = new TcpClient();
                var at = _target.LastIndexOf(':');
                await server.ConnectAsync(_target.Substring(0, at), int.Parse(_target.Substring(at + 1)));
                _ = BackAsync(server.GetStream(), client);
                await ForthAsync(client.GetStream(), server.GetStream());
            }
            catch (Exception e) when (e is IOException || e is ObjectDisposedException || e is SocketException ||
                                      e is InvalidOperationException)
            {
                // One of the sides is gone.
            }
            client.Dispose();
            lock (_open)
                _open.Remove(client);
        }

        private async Task ForthAsync(Stream from, Stream to)
        {
            var bytes = new byte[1 << 16];
            int n;
            while ((n = await from.ReadAsync(bytes, 0, bytes.Length)) > 0)
            {
                var line = Encoding.ASCII.GetString(bytes, 0, Math.Min(n, 200)).Split('\r')[0];
                if (line.Contains("/endpoints/") && Interlocked.Decrement(ref Refuse) >= 0)
                {
                    var bad = Encoding.ASCII.GetBytes("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 3\r\n\r\nbad");
                    await from.WriteAsync(bad, 0, bad.Length);
                    continue;
                }
                await to.WriteAsync(bytes, 0, n);
            }
        }

        private async Task BackAsync(Stream from, TcpClient client)
        {
            try
            {
                var bytes = new byte[1 << 16];
                int n;
                while ((n = await from.ReadAsync(bytes, 0, bytes.Length)) > 0)
                {
                    if (Freeze)
                    {
                        Freeze = false;
                        return; // half open: nothing more comes over this one, and nothing is closed
                    }
                    await client.GetStream().WriteAsync(bytes, 0, n);
                }
                client.Client.Shutdown(SocketShutdown.Both);
            }
            catch (Exception e) when (e is IOException || e is ObjectDisposedException || e is SocketException ||
                                      e is InvalidOperationException)
            {
                // One of the sides is gone.
            }
        }
    }

    /// <summary>What happens when things break: the right exception comes, nothing hangs, no connection
    /// stays.</summary>
    internal sealed class Faults
    {
        private const string Image = "python:3.12";
        private readonly string _domain = Environment.GetEnvironmentVariable("OPEN_SANDBOX_DOMAIN") ?? "";

        internal async Task RunAsync(Tap tap)
        {
            await tap.TestAsync("faults: 502s of look-ups do not fail a create", BadGatewaysAsync);
            await tap.TestAsync("faults: look-ups that never work leave no sandbox", NeverWorksAsync);
            await tap.TestAsync("faults: a cut stream of a command is told to its end", CutAsync);
            await tap.TestAsync("faults: a half-open stream is noticed", HalfOpenAsync);
            await tap.TestAsync("faults: a server that is gone is an error", GoneAsync);
            await tap.TestAsync("faults: a slow reader gets everything", SlowReaderAsync);
            await tap.TestAsync("faults: a cancelled call closes its connection", CancelledAsync);
            await tap.TestAsync("a pool keeps sandboxes ready", PoolAsync);
        }

        private static ConnectionConfig Through(Front front, TimeSpan? idle = null) => new ConnectionConfig(
            new ConnectionConfigOptions
            {
                Domain = front.Domain, UseServerProxy = true, RetryBackoff = TimeSpan.FromMilliseconds(5),
                StreamIdleTimeout = idle ?? TimeSpan.FromSeconds(30),
            });

        private static Task<Sandbox> CreateAsync(ConnectionConfig config) => Sandbox.CreateAsync(
            new SandboxCreateOptions { ConnectionConfig = config, Image = Image, TimeoutSeconds = 120 });

        private static async Task NoneOpenAsync(Front front)
        {
            while (front.Open > 0) // the time limit is that of the test
                await Task.Delay(10);
        }

        private async Task BadGatewaysAsync()
        {
            using var front = new Front(_domain) { Refuse = 2 };
            using (var config = Through(front))
            await using (var sandbox = await CreateAsync(config))
                await sandbox.KillAsync();
            Check.True(front.Refuse <= 0, "there were no 502s");
            await NoneOpenAsync(front);
        }

        private async Task NeverWorksAsync()
        {
            using var direct = new ConnectionConfig();
            var manager = SandboxManager.Create(new SandboxManagerOptions { ConnectionConfig = direct });
            var before = (await manager.ListSandboxInfosAsync(new SandboxFilter())).Pagination.TotalItems;
            using var front = new Front(_domain) { Refuse = 1000 };
            using (var config = Through(front))
            {
                var thrown = await Check.Throws<SandboxApiException>(() => CreateAsync(config));
                Check.Equal(502, thrown.StatusCode);
            }
            await NoneOpenAsync(front);
            Check.Equal(before, (await manager.ListSandboxInfosAsync(new SandboxFilter())).Pagination.TotalItems);
        }

        private async Task CutAsync()
        {
            using var front = new Front(_domain);
            using (var config = Through(front))
            await using (var sandbox = await CreateAsync(config))
            {
                var seen = new List<string>();
                var run = await sandbox.Commands.RunAsync(
                    "for n in $(seq 1 40); do echo line $n; sleep 0.02; done; echo bad >&2; exit 9", null,
                    new ExecutionHandlers
                    {
                        OnStdout = m =>
                        {
                            seen.Add(m.Text);
                            if (seen.Count == 5)
                                front.Cut();
                            return Task.CompletedTask;
                        },
                    });
                Check.Equal(string.Join(",", Enumerable.Range(1, 40).Select(n => "line " + n)),
                            string.Join(",", seen));
                Check.Equal(9, run.ExitCode);
                Check.Equal("bad", run.Logs.Stderr.Single().Text);
                await sandbox.KillAsync();
            }
            await NoneOpenAsync(front);
        }

        private async Task HalfOpenAsync()
        {
            using var front = new Front(_domain);
            using (var config = Through(front, TimeSpan.FromSeconds(4)))
            await using (var sandbox = await CreateAsync(config))
            {
                var run = await sandbox.Commands.RunAsync("echo one; sleep 2; echo two", null,
                    new ExecutionHandlers
                    {
                        OnStdout = m =>
                        {
                            front.Freeze = m.Text == "one";
                            return Task.CompletedTask;
                        },
                    });
                Check.True(!front.Freeze, "nothing was frozen");
                Check.Equal("one\ntwo", run.Text);
                Check.Equal(0, run.ExitCode);
                await sandbox.KillAsync();
            }
            await NoneOpenAsync(front);
        }

        private async Task GoneAsync()
        {
            var front = new Front(_domain);
            using var config = Through(front);
            await using var sandbox = await CreateAsync(config);
            await Check.Throws<StreamEndedException>(() => sandbox.Commands.RunAsync("echo x; sleep 60", null,
                new ExecutionHandlers
                {
                    OnStdout = m =>
                    {
                        front.Dispose();
                        return Task.CompletedTask;
                    },
                }));
            await Check.Throws<SandboxInternalException>(() => sandbox.GetInfoAsync());
            Check.True(!await sandbox.IsHealthyAsync(), "it seems healthy");
            using var direct = new ConnectionConfig();
            await SandboxManager.Create(new SandboxManagerOptions { ConnectionConfig = direct })
                .KillSandboxAsync(sandbox.Id);
        }

        private async Task SlowReaderAsync()
        {
            using var config = new ConnectionConfig();
            await using var sandbox = await CreateAsync(config);
            var got = 0;
            await foreach (var e in sandbox.Commands.RunStreamAsync("seq 1 100000"))
                if (e.Type == "stdout" && ++got % 25000 == 0)
                    await Task.Delay(200);
            Check.Equal(100000, got);
            await sandbox.KillAsync();
        }

        private async Task CancelledAsync()
        {
            using var front = new Front(_domain);
            using (var config = Through(front))
            await using (var sandbox = await CreateAsync(config))
            {
                using var cancel = new CancellationTokenSource();
                await Check.Throws<OperationCanceledException>(() => sandbox.Commands.RunAsync(
                    "echo here; sleep 600", null, new ExecutionHandlers
                    {
                        OnStdout = m =>
                        {
                            cancel.Cancel();
                            return Task.CompletedTask;
                        },
                    }, cancel.Token));
                Check.Equal("alive", (await sandbox.Commands.RunAsync("echo alive")).Text);
                await sandbox.KillAsync();
            }
            await NoneOpenAsync(front);
        }

        private async Task PoolAsync()
        {
            using var config = new ConnectionConfig();
            var prepared = 0;
            await using var pool = new SandboxPool(new SandboxPoolOptions
            {
                Create = new SandboxCreateOptions { ConnectionConfig = config, Image = Image }, MaxIdle = 2,
                Prepare = (sandbox, ct) =>
                {
                    Interlocked.Increment(ref prepared);
                    return Task.CompletedTask;
                },
            });
            while (pool.IdleCount < 2)
                await Task.Delay(10);
            await using var first = await pool.AcquireAsync(TimeSpan.FromMinutes(1));
            Check.Equal("pooled", (await first.Commands.RunAsync("echo pooled")).Text);
            while (pool.IdleCount < 2)
                await Task.Delay(10);
            Check.Equal(3, prepared);
            await first.KillAsync();
            var none = await Check.Throws<InvalidArgumentException>(
                () => Task.FromResult(new SandboxPool(new SandboxPoolOptions { MaxIdle = 0 })));
            Check.True(none.Message.Contains("MaxIdle"), none.Message);
        }
    }
}
