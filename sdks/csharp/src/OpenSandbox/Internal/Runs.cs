using System;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using System.Net.Http;
using System.Runtime.CompilerServices;
using System.Text;
using System.Threading;
using System.Threading.Tasks;
using OpenSandbox.Adapters;
using OpenSandbox.Core;
using OpenSandbox.Models;

namespace OpenSandbox.Internal
{
    /// <summary>Follows what a request started to its last event.</summary>
    internal static class Runs
    {
        /// <summary>The events of a run. Without the last one their end is an exception; behind it a break
        /// does not matter.</summary>
        internal static async IAsyncEnumerable<ServerStreamEvent> EventsAsync(
            Api api, string path, object body, [EnumeratorCancellation] CancellationToken ct)
        {
            var ended = false;
            var stream = EventStream.OpenAsync(api, HttpMethod.Post, path, body, ct).GetAsyncEnumerator(ct);
            await using (stream.ConfigureAwait(false))
            {
                while (true)
                {
                    try
                    {
                        if (!await stream.MoveNextAsync().ConfigureAwait(false))
                            break;
                    }
                    catch (StreamEndedException) when (ended)
                    {
                        break;
                    }
                    var e = EventStream.Parse<ServerStreamEvent>(stream.Current);
                    if (e.Type.Length == 0)
                        ThrowFailure(stream.Current);
                    ended = ended || e.Type == ServerStreamEventTypes.ExecutionComplete ||
                            e.Type == ServerStreamEventTypes.Error;
                    if (e.Type != "ping")
                        yield return e;
                }
            }
            if (!ended)
                throw new StreamEndedException("the stream ended before its last event");
        }

        /// <summary>{code, message}: what a server sends when it fails in the middle.</summary>
        private static void ThrowFailure(ReadOnlyMemory<byte> data)
        {
            var text = Encoding.UTF8.GetString(data.ToArray());
            var error = Api.ErrorOf(text);
            if (error != null)
                throw new SandboxApiException(error.Message ?? error.Code, 200, null, text, error);
        }

        internal static async Task<Execution> RunAsync(Api api, string path, object body,
                                                       ExecutionHandlers? handlers, CancellationToken ct,
                                                       CommandsAdapter? follow = null)
        {
            var run = new Execution();
            handlers ??= new ExecutionHandlers();
            var seen = new SeenBytes();
            StreamEndedException? broken = null;
            try
            {
                await foreach (var e in EventsAsync(api, path, body, ct).ConfigureAwait(false))
                {
                    seen.Count(e);
                    await CallAsync(handlers.OnEvent, e).ConfigureAwait(false);
                    await TakeAsync(run, e, handlers).ConfigureAwait(false);
                }
            }
            catch (StreamEndedException e)
            {
                broken = e; // which does not matter when the last event is there
            }
            if (run.Error != null || run.Complete != null)
                return run;
            broken = new StreamEndedException("the stream ended before its last event", broken);
            if (follow == null || run.Id == null || !seen.Known)
                throw broken;
            await FollowUpAsync(follow, run, handlers, seen, broken, ct).ConfigureAwait(false);
            return run;
        }

        /// <summary>How many bytes of a command's output came: events are its lines.</summary>
        private sealed class SeenBytes
        {
            internal long Stdout { get; private set; }
            internal long Stderr { get; private set; }
            internal bool Known { get; private set; } = true;

            internal void Count(ServerStreamEvent e)
            {
                if (e.Type != ServerStreamEventTypes.Stdout && e.Type != ServerStreamEventTypes.Stderr)
                    return;
                var text = e.Text ?? "";
                Known &= text.IndexOf('\uFFFD') < 0;
                var bytes = text == "\n" ? 1 : Encoding.UTF8.GetByteCount(text) + 1;
                bytes -= e.Continues == true ? 1 : 0;
                if (e.Type == ServerStreamEventTypes.Stdout)
                    Stdout += bytes;
                else
                    Stderr += bytes;
            }
        }

        /// <summary>A foreground command runs on without its stream; its status and logs tell the rest.</summary>
        private static async Task FollowUpAsync(CommandsAdapter commands, Execution run,
            ExecutionHandlers handlers, SeenBytes seen, StreamEndedException broken, CancellationToken ct)
        {
            CommandStatus status;
            try
            {
                for (var pause = 20; ; pause = Math.Min(1000, pause * 2))
                {
                    status = await commands.GetCommandStatusAsync(run.Id!, ct).ConfigureAwait(false);
                    if (status.Running != true)
                        break;
                    await Task.Delay(pause, ct).ConfigureAwait(false);
                }
                await RestAsync(commands, run, handlers, "stdout", seen.Stdout, ct).ConfigureAwait(false);
                await RestAsync(commands, run, handlers, "stderr", seen.Stderr, ct).ConfigureAwait(false);
            }
            catch (SandboxException)
            {
                throw broken;
            }
            var ended = new ServerStreamEvent { Timestamp = Millis(status.FinishedAt) };
            if (status.ExitCode == 0)
            {
                ended.Type = ServerStreamEventTypes.ExecutionComplete;
                ended.ExecutionTime = Millis(status.FinishedAt) - Millis(status.StartedAt);
            }
            else
            {
                ended.Type = ServerStreamEventTypes.Error;
                ended.Error = new EventError
                {
                    Ename = "CommandExecError", Traceback = new[] { status.Error ?? "" },
                    Evalue = (status.ExitCode ?? -1).ToString(CultureInfo.InvariantCulture),
                };
            }
            await TakeAsync(run, ended, handlers).ConfigureAwait(false);
        }

        private static long Millis(DateTime? time) => time == null ? 0 :
            new DateTimeOffset(time.Value.ToUniversalTime()).ToUnixTimeMilliseconds();

        private static async Task RestAsync(CommandsAdapter commands, Execution run,
            ExecutionHandlers handlers, string stream, long from, CancellationToken ct)
        {
            var text = new StringBuilder();
            while (true)
            {
                var logs = await commands.LogsAsync(run.Id!, from, stream, ct).ConfigureAwait(false);
                text.Append(logs.Content);
                if (logs.Content.Length == 0 || logs.Cursor == null || logs.Cursor <= from)
                    break;
                from += Encoding.UTF8.GetByteCount(logs.Content);
                if (logs.Cursor <= from)
                    break;
            }
            if (text.Length == 0)
                return;
            if (text[text.Length - 1] == '\n')
                text.Length--;
            foreach (var line in text.ToString().Split('\n'))
                await TakeAsync(run, new ServerStreamEvent
                    { Type = stream, Text = line.Length == 0 ? "\n" : line }, handlers).ConfigureAwait(false);
        }

        private static Task CallAsync<T>(Func<T, Task>? handler, T value) =>
            handler == null ? Task.CompletedTask : handler(value);

        private static async Task TakeAsync(Execution run, ServerStreamEvent e, ExecutionHandlers handlers)
        {
            var time = e.Timestamp ?? 0;
            switch (e.Type)
            {
                case ServerStreamEventTypes.Init:
                    run.Id = e.Text;
                    await CallAsync(handlers.OnInit,
                        new ExecutionInit { Id = e.Text ?? "", Timestamp = time }).ConfigureAwait(false);
                    break;
                case ServerStreamEventTypes.Stdout:
                case ServerStreamEventTypes.Stderr:
                    await OutputAsync(run, e, handlers).ConfigureAwait(false);
                    break;
                case ServerStreamEventTypes.ExecutionCount:
                    run.ExecutionCount = e.ExecutionCount;
                    break;
                case ServerStreamEventTypes.Result:
                    var result = new ExecutionResult { Raw = e.Results, Timestamp = time };
                    result.Text = result.Form("text/plain") ?? result.Form("text") ??
                                  result.Form("textPlain");
                    run.Results.Add(result);
                    await CallAsync(handlers.OnResult, result).ConfigureAwait(false);
                    break;
                case ServerStreamEventTypes.ExecutionComplete:
                    run.Complete = new ExecutionComplete
                        { Timestamp = time, ExecutionTimeMs = e.ExecutionTime ?? 0 };
                    await CallAsync(handlers.OnExecutionComplete, run.Complete).ConfigureAwait(false);
                    break;
                case ServerStreamEventTypes.Error:
                    run.Error = new ExecutionError
                    {
                        Name = e.Error?.Ename ?? "", Value = e.Error?.Evalue ?? "", Timestamp = time,
                        Traceback = e.Error?.Traceback ?? Array.Empty<string>(),
                    };
                    await CallAsync(handlers.OnError, run.Error).ConfigureAwait(false);
                    break;
            }
        }

        private static Task OutputAsync(Execution run, ServerStreamEvent e, ExecutionHandlers handlers)
        {
            var isError = e.Type == ServerStreamEventTypes.Stderr;
            var message = new OutputMessage
                { Text = e.Text ?? "", Timestamp = e.Timestamp ?? 0, IsError = isError };
            if (!handlers.SkipAccumulation)
                (isError ? run.Logs.Stderr : run.Logs.Stdout).Add(message);
            return CallAsync(isError ? handlers.OnStderr : handlers.OnStdout, message);
        }

        /// <summary>Exit status of a foreground command, from its last event.</summary>
        internal static void SetExitCode(Execution run)
        {
            if (run.Error == null)
                run.ExitCode = 0;
            else if (int.TryParse(run.Error.Value, NumberStyles.AllowLeadingSign,
                                  CultureInfo.InvariantCulture, out var code))
                run.ExitCode = code;
        }
    }
}
