#!/usr/bin/env python3
"""test_egress_sdk.py async|sync|SDK.js SERVER BROKER EXECD SANDBOXCTL EGRESS - network policies by
the official SDKs: the Python one of the Python that runs this, or the JavaScript one by its entry
file. The sandboxes have a small internet of namespaces."""
import hashlib
import json
import logging
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tools"), str(HERE.parent / "integration")]

import egress_world  # noqa: E402
from server_process import ServerProcess  # noqa: E402
from tap import Tap, skip_all  # noqa: E402


async def a_policy_at_create_is_shown_and_in_force(client):
    from opensandbox.models.sandboxes import NetworkPolicy, NetworkRule
    from sdk_client import discard, done
    from sdk_commands import run
    sandbox = await client.create(network_policy=NetworkPolicy(
        default_action="deny", egress=[NetworkRule(action="allow", target="*.allowed.test")]))
    try:
        policy = await done(sandbox.get_egress_policy())
        assert policy.default_action == "deny", policy
        assert [(r.action, r.target) for r in policy.egress] == [("allow", "*.allowed.test")]
        assert (await run(sandbox, "getent hosts www.allowed.test")).exit_code == 0
        assert (await run(sandbox, "getent hosts other.test")).exit_code != 0
        await done(sandbox.patch_egress_rules([NetworkRule(action="allow", target="other.test")]))
        policy = await done(sandbox.get_egress_policy())
        assert [r.target for r in policy.egress] == ["other.test", "*.allowed.test"], policy
        assert (await run(sandbox, "getent hosts other.test")).exit_code == 0
        if hasattr(sandbox, "delete_egress_rules"):
            await done(sandbox.delete_egress_rules(["other.test"]))
            assert (await run(sandbox, "getent hosts other.test")).exit_code != 0
    finally:
        await discard(sandbox)


async def a_sandbox_without_a_policy_has_one_that_can_be_changed(client):
    from opensandbox.models.sandboxes import NetworkRule
    from sdk_client import discard, done
    from sdk_commands import run
    sandbox = await client.create()
    try:
        policy = await done(sandbox.get_egress_policy())
        assert policy.default_action == "allow" and not policy.egress, policy
        await done(sandbox.patch_egress_rules([NetworkRule(action="deny", target="other.test")]))
        assert (await run(sandbox, "getent hosts other.test")).exit_code != 0
        assert (await run(sandbox, "getent hosts denied.test")).exit_code == 0
    finally:
        await discard(sandbox)


async def a_wrong_rule_is_refused_with_its_reason(client):
    from opensandbox.exceptions import SandboxApiException
    from opensandbox.models.sandboxes import NetworkRule
    from sdk_client import discard, raises
    sandbox = await client.create()
    try:
        error = await raises(SandboxApiException, lambda: sandbox.patch_egress_rules(
            [NetworkRule(action="allow", target="http://no")]))
        assert error.status_code == 400, error
    finally:
        await discard(sandbox)


async def arrived(sandbox, path="/digests"):
    """Digests of the headers that the server got of a request for a name that only curl knows."""
    from sdk_commands import run
    done = await run(sandbox, "curl -sS --max-time 30 --resolve vault.pinned.test:80:203.0.113.11 "
                     f"http://vault.pinned.test{path}")
    assert done.exit_code == 0, done
    return json.loads("".join(line.text for line in done.logs.stdout))


def carries(headers, **wanted):
    """Whether exactly these of the headers in question arrived."""
    names = ("authorization", "x-api-key", "x-first", "x-second")
    got = {name: headers[name] for name in names if name in headers}
    want = {name.replace("_", "-"): hashlib.sha256(value.encode()).hexdigest()
            for name, value in wanted.items()}
    assert got == want, (got, want)


def binding(name, auth, path="/*"):
    return {"name": name, "auth": auth, "match": {
        "schemes": ["http"], "ports": [80], "hosts": ["vault.pinned.test"], "paths": [path]}}


async def a_vault_goes_through_all_kinds_and_revisions(client):
    """Each kind of authentication, add, replace and delete while it runs: revisions 1 to 6."""
    from opensandbox.exceptions import SandboxApiException
    from opensandbox.models.sandboxes import CredentialProxyConfig, NetworkPolicy, NetworkRule
    from sdk_client import discard, done, raises
    sandbox = await client.create(
        network_policy=NetworkPolicy(default_action="allow", egress=[
            NetworkRule(action="allow", target="vault.pinned.test")]),
        credential_proxy=CredentialProxyConfig(enabled=True))
    vault = sandbox.credential_vault
    try:
        carries(await arrived(sandbox))
        state = await done(vault.create(
            credentials=[{"name": "one", "source": {"value": "first-secret"}}],
            bindings=[binding("b", {"type": "bearer", "credential": "one"})]))
        assert state.revision == 1 and "first-secret" not in str(state), state
        carries(await arrived(sandbox), authorization="Bearer first-secret")
        state = await done(vault.patch(
            expected_revision=1, credentials={"add": [
                {"name": "two", "source": {"value": "dXNlcjpzZWNvbmQtc2VjcmV0"}}]},
            bindings={"replace": [binding("b", {"type": "basic", "credential": "two"})]}))
        assert state.revision == 2, state
        carries(await arrived(sandbox),
                authorization="Basic dXNlcjpzZWNvbmQtc2VjcmV0")
        state = await done(vault.patch(bindings={"delete": ["b"], "add": [
            binding("k", {"type": "apiKey", "name": "X-Api-Key", "credential": "one"})]}))
        assert state.revision == 3, state
        carries(await arrived(sandbox), x_api_key="first-secret")
        state = await done(vault.patch(
            credentials={"replace": [{"name": "one", "source": {"value": "newer-secret"}}]}))
        assert state.revision == 4, state
        carries(await arrived(sandbox), x_api_key="newer-secret")
        state = await done(vault.patch(bindings={"add": [
            binding("h", {"type": "customHeaders", "headers": [
                {"name": "X-First", "credential": "one"},
                {"name": "X-Second", "credential": "two"}]}, "/digests/h")],
            "replace": [binding("k", {"type": "apiKey", "name": "X-Api-Key",
                                      "credential": "one"}, "/digests/k")]}))
        assert state.revision == 5, state
        carries(await arrived(sandbox, "/digests/h"), x_first="newer-secret",
                x_second="dXNlcjpzZWNvbmQtc2VjcmV0")
        carries(await arrived(sandbox, "/digests/k"), x_api_key="newer-secret")
        carries(await arrived(sandbox))
        assert [b.name for b in await done(vault.list_bindings())] == ["h", "k"]
        assert (await done(vault.get_credential("one"))).revision == 4
        assert (await done(vault.get_binding("k"))).auth.type == "apiKey"
        error = await raises(SandboxApiException, lambda: vault.patch(
            expected_revision=2, bindings={"delete": ["h"]}))
        assert error.status_code == 409, error
        state = await done(vault.patch(bindings={"delete": ["h", "k"]},
                                       credentials={"delete": ["two"]}))
        assert state.revision == 6 and not state.bindings, state
        assert [c.name for c in await done(vault.list_credentials())] == ["one"]
        for path in ("/digests", "/digests/h", "/digests/k"):
            carries(await arrived(sandbox, path))
        await done(vault.delete())
        error = await raises(SandboxApiException, vault.get)
        assert error.status_code == 404, error
    finally:
        await discard(sandbox)


TESTS = [a_vault_goes_through_all_kinds_and_revisions, a_policy_at_create_is_shown_and_in_force,
         a_sandbox_without_a_policy_has_one_that_can_be_changed,
         a_wrong_rule_is_refused_with_its_reason]


def run_python(kind, server):
    from sdk_client import VERSION, Client
    print(f"# opensandbox {VERSION}, {kind}")
    tap, client = Tap(), Client(kind, server)
    for test in TESTS:
        tap.check(test.__name__, lambda t=test: client.run(t(client)))
    return tap.end()


def run_js(sdk, server):
    env = {"PATH": os.environ["PATH"], "OPENSANDBOX_JS_SDK": os.path.abspath(sdk),
           "OPEN_SANDBOX_DOMAIN": server.domain, "OPEN_SANDBOX_API_KEY": server.api_key}
    return subprocess.run(["node", HERE / "js_egress.mjs"], env=env, check=False).returncode


def main():
    kind, *programs, egress = sys.argv[1:]
    skip_all(egress_world.why_not())
    logging.disable(logging.CRITICAL)  # the SDK logs every exception it raises
    egress_world.enter()
    config = {"egress": {"program": os.path.abspath(egress), "upstreams": [egress_world.RESOLVER]},
              "embedded": {"dns": [egress_world.RESOLVER]}}
    with egress_world.Internet(), ServerProcess(*programs, config=config) as server:
        status = run_js(kind, server) if kind.endswith(".js") else run_python(kind, server)
        if status != 0:
            print("# " + server.log()[-8000:].replace("\n", "\n# "))
    return status


if __name__ == "__main__":
    sys.exit(main())
