using System;
using System.Collections.Generic;
using System.Threading.Tasks;

namespace OpenSandbox.Tests
{
    /// <summary>Runs tests by name and prints TAP.</summary>
    internal sealed class Tap
    {
        private static readonly TimeSpan Limit = TimeSpan.FromSeconds(120);
        private int _number;
        private int _failed;

        internal async Task TestAsync(string name, Func<Task> test)
        {
            _number++;
            try
            {
                var run = test();
                if (await Task.WhenAny(run, Task.Delay(Limit)) != run)
                    throw new TimeoutException($"not done after {Limit.TotalSeconds} s");
                await run;
                Console.WriteLine($"ok {_number} - {name}");
            }
            catch (Exception e)
            {
                _failed++;
                Console.WriteLine($"not ok {_number} - {name}");
                Console.WriteLine("# " + e.ToString().Replace("\n", "\n# "));
            }
        }

        internal int End()
        {
            Console.WriteLine($"1..{_number}");
            return _failed > 0 ? 1 : 0;
        }
    }

    internal static class Check
    {
        internal static void Equal<T>(T wanted, T got, string what = "")
        {
            if (!EqualityComparer<T>.Default.Equals(wanted, got))
                throw new Exception($"{what}: wanted '{wanted}', got '{got}'");
        }

        internal static void True(bool truth, string what)
        {
            if (!truth)
                throw new Exception(what);
        }

        internal static async Task<E> Throws<E>(Func<Task> call) where E : Exception
        {
            try
            {
                await call();
            }
            catch (E e)
            {
                return e;
            }
            throw new Exception($"no {typeof(E).Name} was thrown");
        }
    }
}
