"""A secret that requests carry and the sandbox never sees."""
from opensandbox import SandboxSync
from opensandbox.models import CredentialProxyConfig, NetworkPolicy, NetworkRule

policy = NetworkPolicy(egress=[NetworkRule(action="allow", target="api.example.org")])
with SandboxSync.create("python:3.12", network_policy=policy,
                        credential_proxy=CredentialProxyConfig(enabled=True)) as sandbox:
    state = sandbox.credential_vault.create(
        credentials=[{"name": "token", "source": {"type": "inline", "value": "s3cret"}}],
        bindings=[{"name": "api", "match": {"hosts": ["api.example.org"]},
                   "auth": {"type": "bearer", "credential": "token"}}])
    print(state.revision, [credential.name for credential in state.credentials])
    sandbox.kill()
