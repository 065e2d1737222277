using System;
using System.Text.Json;
using System.Text.Json.Serialization;
using OpenSandbox.Models;

namespace OpenSandbox.Internal
{
    /// <summary>"allow" and "deny"; reads any case.</summary>
    internal sealed class RuleActionConverter : JsonConverter<NetworkRuleAction>
    {
        public override NetworkRuleAction Read(ref Utf8JsonReader reader, Type type,
                                               JsonSerializerOptions options)
        {
            var name = reader.GetString();
            return Enum.TryParse<NetworkRuleAction>(name, true, out var action)
                ? action
                : throw new JsonException($"the action '{name}' is neither allow nor deny");
        }

        public override void Write(Utf8JsonWriter writer, NetworkRuleAction value,
                                   JsonSerializerOptions options) =>
            writer.WriteStringValue(value == NetworkRuleAction.Allow ? "allow" : "deny");
    }
}
