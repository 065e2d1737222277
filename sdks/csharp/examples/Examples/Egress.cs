using System;
using System.Collections.Generic;
using System.Linq;
using System.Threading.Tasks;
using OpenSandbox.Models;

namespace OpenSandbox.Examples
{
    /// <summary>What a sandbox may talk to, changed while it runs.</summary>
    internal static class Egress
    {
        internal static async Task RunAsync()
        {
            await using var sandbox = await Sandbox.CreateAsync(new SandboxCreateOptions
            {
                Image = "python:3.12",
                NetworkPolicy = new NetworkPolicy
                {
                    DefaultAction = NetworkRuleAction.Deny,
                    Egress = new List<NetworkRule> { new NetworkRule { Action = NetworkRuleAction.Allow, Target = "*.example.org" } },
                },
            });
            await sandbox.PatchEgressRulesAsync(new[]
                { new NetworkRule { Action = NetworkRuleAction.Allow, Target = "pypi.org" } });
            var now = await sandbox.GetEgressPolicyAsync();
            foreach (var target in now.Egress!.Select(rule => rule.Target).OrderBy(t => t, StringComparer.Ordinal))
                Console.WriteLine($"allow {target}");
            await sandbox.KillAsync();
        }
    }
}
