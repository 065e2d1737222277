using System;
using System.Collections.Generic;
using System.Threading;
using System.Threading.Tasks;
using OpenSandbox.Core;

namespace OpenSandbox
{
    /// <summary>What a pool keeps ready.</summary>
    public sealed class SandboxPoolOptions
    {
        /// <summary>What is created. TimeoutSeconds and ManualCleanup are the pool's: leave them unset.</summary>
        public SandboxCreateOptions Create { get; set; } = new SandboxCreateOptions();

        /// <summary>Idle sandboxes that are kept.</summary>
        public int MaxIdle { get; set; } = 2;

        /// <summary>Time to live of an idle sandbox. The pool renews it; what a program that was killed leaves
        /// behind ends by it.</summary>
        public TimeSpan IdleTimeout { get; set; } = TimeSpan.FromMinutes(10);

        /// <summary>Makes a sandbox ready for its user, before it is idle. An exception discards it.</summary>
        public Func<Sandbox, CancellationToken, Task>? Prepare { get; set; }

        /// <summary>Is told why a sandbox could not be made; it is tried again after a pause.</summary>
        public Action<Exception>? OnError { get; set; }
    }

    /// <summary>Keeps idle sandboxes, so that AcquireAsync needs not wait for one to start. It lives in this
    /// process; pools that several processes share are those of the server (ISandboxes.CreatePoolAsync).</summary>
    public sealed class SandboxPool : IAsyncDisposable
    {
        private const int WarmupsMax = 4;
        private static readonly TimeSpan PauseMin = TimeSpan.FromMilliseconds(100);
        private static readonly TimeSpan PauseMax = TimeSpan.FromSeconds(10);

        private readonly SandboxPoolOptions _options;
        private readonly SandboxCreateOptions _create;
        private readonly CancellationTokenSource _ended = new CancellationTokenSource();
        private readonly SemaphoreSlim _missing;
        private readonly List<(Sandbox Sandbox, DateTime Renewed)> _idle =
            new List<(Sandbox Sandbox, DateTime Renewed)>();
        private readonly List<Task> _work = new List<Task>();

        /// <summary>Starts to fill a pool. Dispose it.</summary>
        public SandboxPool(SandboxPoolOptions options)
        {
            if (options.MaxIdle < 1 || options.IdleTimeout < TimeSpan.FromSeconds(1))
                throw new InvalidArgumentException("MaxIdle must be positive, and IdleTimeout at least a second");
            if (options.Create.IdempotencyKey != null)
                throw new InvalidArgumentException("a pool makes many sandboxes: no IdempotencyKey");
            if (options.Create.TimeoutSeconds != null || options.Create.ManualCleanup)
                throw new InvalidArgumentException("Create has no time to live of its own in a pool");
            _options = options;
            _create = options.Create.Copy();
            _create.TimeoutSeconds = (int)options.IdleTimeout.TotalSeconds;
            _missing = new SemaphoreSlim(options.MaxIdle);
            for (var n = 0; n < Math.Min(options.MaxIdle, WarmupsMax); n++)
                _work.Add(Task.Run(FillAsync));
            _work.Add(Task.Run(KeepAliveAsync));
        }

        /// <summary>How many sandboxes are ready.</summary>
        public int IdleCount
        {
            get
            {
                lock (_idle)
                    return _idle.Count;
            }
        }

        /// <summary>A sandbox that lives for so long and is the caller's to kill and dispose: an idle one that
        /// still answers, or else a new one.</summary>
        public async Task<Sandbox> AcquireAsync(TimeSpan lifetime, CancellationToken cancellationToken = default)
        {
            if (_ended.IsCancellationRequested)
                throw new ObjectDisposedException(nameof(SandboxPool));
            var seconds = (int)lifetime.TotalSeconds;
            if (seconds < 1)
                throw new InvalidArgumentException("a lifetime must be at least a second");
            while (Take(_ => true) is Sandbox idle)
            {
                _missing.Release();
                try
                {
                    await idle.RenewAsync(seconds, cancellationToken).ConfigureAwait(false);
                    if (await idle.IsHealthyAsync(cancellationToken).ConfigureAwait(false))
                        return idle;
                }
                catch (SandboxException)
                {
                    // It has ended: the next one, or a new one.
                }
                catch (OperationCanceledException)
                {
                    await DiscardAsync(idle).ConfigureAwait(false);
                    throw;
                }
                await DiscardAsync(idle).ConfigureAwait(false);
            }
            var made = await MakeAsync(cancellationToken).ConfigureAwait(false);
            try
            {
                await made.RenewAsync(seconds, cancellationToken).ConfigureAwait(false);
                return made;
            }
            catch
            {
                await DiscardAsync(made).ConfigureAwait(false);
                throw;
            }
        }

        /// <summary>Ends the idle sandboxes. Those that were acquired stay.</summary>
        public async ValueTask DisposeAsync()
        {
            _ended.Cancel();
            await Task.WhenAll(_work).ConfigureAwait(false);
            while (Take(_ => true) is Sandbox idle)
                await DiscardAsync(idle).ConfigureAwait(false);
        }

        private Sandbox? Take(Func<DateTime, bool> wanted)
        {
            lock (_idle)
            {
                var at = _idle.FindIndex(entry => wanted(entry.Renewed));
                if (at < 0)
                    return null;
                var found = _idle[at].Sandbox;
                _idle.RemoveAt(at);
                return found;
            }
        }

        private void Put(Sandbox sandbox)
        {
            lock (_idle)
                _idle.Add((sandbox, DateTime.UtcNow));
        }

        private async Task FillAsync()
        {
            var pause = PauseMin;
            try
            {
                while (true)
                {
                    await _missing.WaitAsync(_ended.Token).ConfigureAwait(false);
                    try
                    {
                        Put(await MakeAsync(_ended.Token).ConfigureAwait(false));
                        pause = PauseMin;
                        continue;
                    }
                    catch (Exception e) when (!_ended.IsCancellationRequested)
                    {
                        _missing.Release();
                        _options.OnError?.Invoke(e);
                    }
                    await Task.Delay(pause, _ended.Token).ConfigureAwait(false);
                    pause = pause + pause < PauseMax ? pause + pause : PauseMax;
                }
            }
            catch (Exception) when (_ended.IsCancellationRequested)
            {
                // The pool was disposed.
            }
        }

        private async Task<Sandbox> MakeAsync(CancellationToken ct)
        {
            var sandbox = await Sandbox.CreateAsync(_create, ct).ConfigureAwait(false);
            try
            {
                if (_options.Prepare != null)
                    await _options.Prepare(sandbox, ct).ConfigureAwait(false);
                return sandbox;
            }
            catch
            {
                await DiscardAsync(sandbox).ConfigureAwait(false);
                throw;
            }
        }

        /// <summary>Renews sandboxes that were idle for half of their time, and replaces those that ended.</summary>
        private async Task KeepAliveAsync()
        {
            try
            {
                while (true)
                {
                    await Task.Delay(TimeSpan.FromTicks(_options.IdleTimeout.Ticks / 4), _ended.Token)
                        .ConfigureAwait(false);
                    var half = TimeSpan.FromTicks(_options.IdleTimeout.Ticks / 2);
                    while (Take(renewed => DateTime.UtcNow - renewed > half) is Sandbox idle)
                    {
                        try
                        {
                            await idle.RenewAsync((int)_options.IdleTimeout.TotalSeconds, _ended.Token)
                                .ConfigureAwait(false);
                            Put(idle);
                        }
                        catch (Exception e) when (e is SandboxException || e is OperationCanceledException)
                        {
                            await DiscardAsync(idle).ConfigureAwait(false);
                            _missing.Release();
                        }
                    }
                }
            }
            catch (OperationCanceledException)
            {
                // The pool was disposed.
            }
        }

        /// <summary>Ends a sandbox that nobody will use; its time to live ends it when the server is away.</summary>
        private static async Task DiscardAsync(Sandbox sandbox)
        {
            try
            {
                await sandbox.KillAsync().ConfigureAwait(false);
            }
            catch (SandboxException)
            {
                // It is gone, or will be.
            }
            await sandbox.DisposeAsync().ConfigureAwait(false);
        }
    }
}
