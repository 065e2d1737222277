"""What a sandbox may talk to, changed while it runs."""
from opensandbox import SandboxSync
from opensandbox.models import NetworkPolicy, NetworkRule

policy = NetworkPolicy(default_action="deny",
                       egress=[NetworkRule(action="allow", target="*.example.org")])
with SandboxSync.create("python:3.12", network_policy=policy) as sandbox:
    sandbox.patch_egress_rules([NetworkRule(action="allow", target="pypi.org")])
    now = sandbox.get_egress_policy()
    print(now.default_action, sorted(rule.target for rule in now.egress or []))
    sandbox.kill()
