using System;
using System.Collections.Generic;
using System.Threading.Tasks;
using OpenSandbox.Models;

namespace OpenSandbox.Examples
{
    /// <summary>A secret that requests carry and the sandbox never sees.</summary>
    internal static class Vault
    {
        internal static async Task RunAsync()
        {
            await using var sandbox = await Sandbox.CreateAsync(new SandboxCreateOptions
            {
                Image = "python:3.12",
                CredentialProxy = new CredentialProxyConfig { Enabled = true },
                NetworkPolicy = new NetworkPolicy
                {
                    DefaultAction = NetworkRuleAction.Deny,
                    Egress = new List<NetworkRule> { new NetworkRule { Action = NetworkRuleAction.Allow, Target = "api.example.org" } },
                },
            });
            var state = await sandbox.CreateCredentialVaultAsync(
                new[] { new Credential { Name = "token", Source = new InlineCredentialSource { Value = "s3cret" } } },
                new[]
                {
                    new CredentialBinding
                    {
                        Name = "api", Match = new CredentialMatch { Hosts = new[] { "api.example.org" } },
                        Auth = new CredentialAuth { Type = "bearer", Credential = "token" },
                    },
                });
            Console.WriteLine($"revision {state.Revision} has {state.Credentials.Count} credential");
            await sandbox.KillAsync();
        }
    }
}
