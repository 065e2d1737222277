"""What a sandbox may reach, and a secret that it uses without having it.

EXAMPLE_HOST (example.com) is allowed, OTHER_HOST (example.org) is not. EXAMPLE_SECRET goes into the
credential vault: requests to EXAMPLE_HOST carry it, and nothing inside the sandbox does.
"""
import asyncio
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "shared"))
from opensandbox_example import connection, image, run  # noqa: E402

from opensandbox import Sandbox  # noqa: E402
from opensandbox.models import CredentialProxyConfig, NetworkPolicy, NetworkRule  # noqa: E402

HOST = os.environ.get("EXAMPLE_HOST", "example.com")
OTHER = os.environ.get("OTHER_HOST", "example.org")
SECRET = os.environ.get("EXAMPLE_SECRET", "a-secret-of-this-example")
CURL = "curl -s -o /dev/null -w '%{http_code}' --max-time 30"


async def status(sandbox, url, more=""):
    """The status of an answer; 000 when there was none."""
    return (await sandbox.commands.run(f"{CURL} {more} {url}")).text


async def main():
    policy = NetworkPolicy(default_action="deny",
                           egress=[NetworkRule(action="allow", target=HOST)])
    sandbox = await Sandbox.create(image("host"), network_policy=policy,
                                   credential_proxy=CredentialProxyConfig(enabled=True),
                                   connection_config=connection())
    try:
        print(f"{HOST}: {await status(sandbox, f'https://{HOST}/')}")
        print(f"{OTHER}: {await status(sandbox, f'https://{OTHER}/')}")
        await sandbox.credential_vault.create(
            credentials=[{"name": "token", "source": {"type": "inline", "value": SECRET}}],
            bindings=[{"name": "api", "match": {"hosts": [HOST]},
                       "auth": {"type": "bearer", "credential": "token"}}])
        print(f"{HOST} with the vault: {await status(sandbox, f'https://{HOST}/with-the-vault')}")
        inside = await run(sandbox, "env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | "
                                    "tr -d '\\0'; true")
        print("the secret is inside:", SECRET in inside)
        await sandbox.patch_egress_rules([NetworkRule(action="allow", target=OTHER)])
        print(f"{OTHER} when it is allowed: {await status(sandbox, f'https://{OTHER}/')}")
        await sandbox.delete_egress_rules([OTHER])
        print(f"{OTHER} again: {await status(sandbox, f'https://{OTHER}/')}")
    finally:
        await sandbox.destroy()


if __name__ == "__main__":
    asyncio.run(main())
