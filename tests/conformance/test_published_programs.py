#!/usr/bin/env python3
"""test_published_programs.py SERVER BROKER EXECD SANDBOXCTL EGRESS - programs with the calls that
the READMEs of the published Python packages show, one test for each section. The same file runs
with the published packages and with ours in their place. TAP on standard output."""
import asyncio
import os
import pathlib
import re
import sys
from datetime import timedelta

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "tools"), str(HERE.parent / "integration")]

import egress_world  # noqa: E402
import httpx  # noqa: E402
from code_interpreter import (  # noqa: E402
    CodeInterpreter,
    CodeInterpreterSync,
    SupportedLanguage,
)
from server_process import SECONDS_MAX, ServerProcess  # noqa: E402
from tap import Tap, skip_all  # noqa: E402

from opensandbox import (  # noqa: E402
    AcquirePolicy,
    InMemoryAsyncPoolStateStore,
    InMemoryPoolStateStore,
    PoolCreationSpec,
    SandboxPoolAsync,
    SandboxPoolSync,
    SandboxSync,
)
from opensandbox.config import ConnectionConfig, ConnectionConfigSync  # noqa: E402
from opensandbox.exceptions import SandboxException  # noqa: E402
from opensandbox.manager import SandboxManager  # noqa: E402
from opensandbox.models.execd import ExecutionHandlers, RunCommandOpts  # noqa: E402
from opensandbox.models.filesystem import SearchEntry, WriteEntry  # noqa: E402
from opensandbox.models.isolated import (  # noqa: E402
    CreateIsolatedSessionRequest,
    IsolatedRunOpts,
    IsolatedWorkspaceSpec,
)
from opensandbox.models.sandboxes import (  # noqa: E402
    Credential,
    CredentialBinding,
    CredentialProxyConfig,
    NetworkPolicy,
    NetworkRule,
    SandboxFilter,
    SnapshotFilter,
)
from opensandbox.sandbox import Sandbox  # noqa: E402

SERVER = None
IMAGES = {name: "host" for name in ("ubuntu*", "python:*", "nginx:*", "opensandbox/*")}
MINUTE = timedelta(minutes=1)


def config(kind=ConnectionConfig, **more):
    return kind(domain=SERVER.domain, api_key=SERVER.api_key, **more)


async def made(image="ubuntu", **more):
    return await Sandbox.create(image, connection_config=config(), ready_timeout=MINUTE, **more)


# --- the sandbox package ---


async def quick_start():
    sandbox = await made()
    try:
        execution = await sandbox.commands.run("echo 'Hello Sandbox!'")
        assert execution.logs.stdout[0].text == "Hello Sandbox!", execution
    finally:
        await sandbox.destroy()
    try:
        await Sandbox.connect(sandbox.id, connection_config=config())
        raise AssertionError("it is still there")
    except SandboxException as error:
        assert error.error.code and error.request_id, error


def synchronous_quick_start():
    transport = httpx.HTTPTransport(limits=httpx.Limits(max_connections=20))
    given = config(ConnectionConfigSync, request_timeout=MINUTE, transport=transport)
    sandbox = SandboxSync.create("ubuntu", connection_config=given)
    try:
        execution = sandbox.commands.run("echo 'Hello Sandbox!'")
        assert execution.logs.stdout[0].text == "Hello Sandbox!", execution
    finally:
        sandbox.destroy()
        transport.close()


def synchronous_pool():
    pool = SandboxPoolSync(
        pool_name="demo-pool", owner_id="worker-1", max_idle=2,
        state_store=InMemoryPoolStateStore(), connection_config=config(ConnectionConfigSync),
        creation_spec=PoolCreationSpec(image="ubuntu:22.04"), warmup_create_qps=10,
        warmup_concurrency=128)
    pool.start()
    try:
        sandbox = pool.acquire(sandbox_timeout=timedelta(minutes=30),
                               policy=AcquirePolicy.DIRECT_CREATE)
        try:
            assert sandbox.commands.run("echo pool-ok").logs.stdout[0].text == "pool-ok"
        finally:
            sandbox.destroy()
        pool.resize(0)
        pool.release_all_idle_parallel(max_workers=50)
    finally:
        pool.shutdown(graceful=True)


async def pool_in_a_loop():
    pool = SandboxPoolAsync(
        pool_name="demo-pool", owner_id="worker-1", max_idle=2,
        state_store=InMemoryAsyncPoolStateStore(), connection_config=config(),
        creation_spec=PoolCreationSpec(image="ubuntu:22.04"))
    await pool.start()
    try:
        while (await pool.snapshot()).idle_count == 0:
            await asyncio.sleep(0.05)
        sandbox = await pool.acquire(sandbox_timeout=timedelta(minutes=30),
                                     policy=AcquirePolicy.FAIL_FAST)
        try:
            result = await sandbox.commands.run("echo pool-ok")
            assert result.logs.stdout[0].text == "pool-ok", result
        finally:
            await sandbox.destroy()
        await pool.resize(0)
        await pool.release_all_idle()
    finally:
        await pool.shutdown(graceful=True)


async def lifecycle():
    sandbox = await made()
    await sandbox.renew(timedelta(minutes=30))
    await sandbox.pause()
    while (await sandbox.get_info()).status.state != "Paused":
        await asyncio.sleep(0.05)
    await sandbox.close()
    sandbox = await Sandbox.resume(sandbox_id=sandbox.id, connection_config=config())
    info = await sandbox.get_info()
    assert info.status.state == "Running" and info.expires_at is not None, info
    await sandbox.destroy()
    manual = await made(timeout=None)
    assert (await manual.get_info()).expires_at is None
    await manual.destroy()


async def custom_health_check():
    asked = []

    async def check(sandbox):
        asked.append((await sandbox.get_endpoint(80)).endpoint)
        return True

    sandbox = await made("nginx:latest", health_check=check)
    assert asked and asked[0], asked
    await sandbox.destroy()


async def streaming(sandbox):
    lines, ends = [], []

    async def handle_stdout(message):
        lines.append(message.text)

    async def handle_stderr(message):
        lines.append("stderr " + message.text)

    async def handle_complete(complete):
        ends.append(complete.execution_time_in_millis)

    handlers = ExecutionHandlers(on_stdout=handle_stdout, on_stderr=handle_stderr,
                                 on_execution_complete=handle_complete)
    await sandbox.commands.run('for i in 1 2 3; do echo "Count $i"; done; echo x >&2',
                               opts=RunCommandOpts(timeout=MINUTE), handlers=handlers)
    assert sorted(lines) == ["Count 1", "Count 2", "Count 3", "stderr x"], lines
    assert len(ends) == 1 and ends[0] >= 0, ends


async def files(sandbox):
    await sandbox.files.write_files([WriteEntry(path="/tmp/hello.txt", data="Hello World",
                                                mode=644)])
    assert await sandbox.files.read_file("/tmp/hello.txt") == "Hello World"
    found = await sandbox.files.search(SearchEntry(path="/tmp", pattern="*.txt"))
    assert "/tmp/hello.txt" in [entry.path for entry in found], found
    await sandbox.files.delete_files(["/tmp/hello.txt"])
    found = await sandbox.files.search(SearchEntry(path="/tmp", pattern="*.txt"))
    assert "/tmp/hello.txt" not in [entry.path for entry in found], found


async def snapshots(sandbox):
    await sandbox.commands.run("echo kept > /root/kept")
    async with await SandboxManager.create(connection_config=config()) as manager:
        snapshot = await manager.create_snapshot(sandbox.id, name="pre-migration")
        info = await manager.get_snapshot(snapshot.id)
        while info.status.state == "Creating":
            await asyncio.sleep(0.05)
            info = await manager.get_snapshot(snapshot.id)
        assert info.status.state == "Ready", info
        page = await manager.list_snapshots(SnapshotFilter())
        assert snapshot.id in [item.id for item in page.snapshot_infos], page
    restored = await Sandbox.create(snapshot_id=snapshot.id, connection_config=config())
    assert await restored.files.read_file("/root/kept") == "kept\n"
    await restored.destroy()
    async with await SandboxManager.create(connection_config=config()) as manager:
        await manager.delete_snapshot(snapshot.id)


async def isolated_sessions(sandbox):
    """Without the `binds` of the README, which our execd refuses."""
    await sandbox.commands.run("mkdir -p /workspace /data; echo d > /data/d")
    session = await sandbox.isolation.create(CreateIsolatedSessionRequest(
        workspace=IsolatedWorkspaceSpec(path="/workspace", mode="rw"), profile="strict",
        idle_timeout_seconds=600))
    try:
        run = await session.run("echo $((1+1)); cat /data/d",
                                opts=IsolatedRunOpts(timeout_seconds=30))
        assert [message.text for message in run.logs.stdout] == ["2", "d"], run
        background = await session.run_background("echo built")
        status = await session.run_status(background.run_id)
        while status.running:
            await asyncio.sleep(0.05)
            status = await session.run_status(background.run_id)
        logs = await session.run_logs(background.run_id)
        assert "built" in str(logs), logs
    finally:
        await session.delete()


async def management():
    sandbox = await made()
    async with await SandboxManager.create(connection_config=config()) as manager:
        page = await manager.list_sandbox_infos(SandboxFilter(states=["RUNNING"], page_size=10))
        assert sandbox.id in [info.id for info in page.sandbox_infos], page
        await manager.kill_sandbox(sandbox.id)
    await sandbox.close()


async def a_configured_connection():
    seen = []

    async def hook(request):
        seen.append(request.headers["x-custom-header"])

    transport = httpx.AsyncHTTPTransport(
        limits=httpx.Limits(max_connections=100, max_keepalive_connections=50,
                            keepalive_expiry=30.0))
    given = config(headers={"X-Custom-Header": "value", "X-Request-ID": "trace-123"},
                   transport=transport, request_timeout=MINUTE, event_hooks={"request": [hook]})
    sandbox = await Sandbox.create(
        "python:3.11", connection_config=given, timeout=timedelta(minutes=30),
        resource={"cpu": "1", "memory": "256Mi"}, env={"PYTHONPATH": "/app"},
        metadata={"project": "demo"})
    execution = await sandbox.commands.run("echo $PYTHONPATH")
    assert execution.logs.stdout[0].text == "/app", execution
    assert (await sandbox.get_info()).metadata["project"] == "demo"
    await sandbox.destroy()
    await given.transport.aclose()
    assert seen and set(seen) == {"value"}, seen


async def egress_and_vault():
    sandbox = await made(
        "python:3.11", credential_proxy=CredentialProxyConfig(enabled=True),
        network_policy=NetworkPolicy(defaultAction="deny", egress=[
            NetworkRule(action="allow", target="api.example.com")]))
    await sandbox.patch_egress_rules([NetworkRule(action="allow", target="www.github.com"),
                                      NetworkRule(action="deny", target="pypi.org")])
    policy = await sandbox.get_egress_policy()
    rules = {rule.target: rule.action for rule in policy.egress}
    assert rules == {"api.example.com": "allow", "www.github.com": "allow",
                     "pypi.org": "deny"}, rules
    await sandbox.credential_vault.create(
        credentials=[Credential(name="api-token", source={"value": "<token>"})],
        bindings=[CredentialBinding(
            name="api-token",
            match={"schemes": ["https"], "hosts": ["api.example.com"], "paths": ["/v1/*"]},
            auth={"type": "apiKey", "name": "x-api-key", "credential": "api-token"})])
    state = await sandbox.credential_vault.get()
    assert state.revision == 1 and "<token>" not in str(state), state
    await sandbox.destroy()


# --- the package of code ---


async def code_quick_start():
    sandbox = await made("opensandbox/code-interpreter:v1.1.0",
                         entrypoint=["/opt/code-interpreter/code-interpreter.sh"],
                         env={"PYTHON_VERSION": "3.11"})
    async with sandbox:
        interpreter = await CodeInterpreter.create(sandbox=sandbox)
        context = await interpreter.codes.create_context(SupportedLanguage.PYTHON)
        result = await interpreter.codes.run(
            "import sys\nprint(sys.version)\nresult = 2 + 2\nresult", context=context)
        assert result.result[0].text == "4" and re.match(r"3\.", result.logs.stdout[0].text)
        await interpreter.codes.run("x = 42", language=SupportedLanguage.PYTHON)
        result = await interpreter.codes.run("result = x\nresult",
                                             language=SupportedLanguage.PYTHON)
        assert result.result[0].text == "42", result
        lines = []

        async def on_stdout(message):
            lines.append(message.text.strip())

        await interpreter.codes.run("for i in range(3):\n    print(i)", context=context,
                                    handlers=ExecutionHandlers(on_stdout=on_stdout))
        assert "".join(lines).replace("\n", "") == "012", lines
        await sandbox.kill()


def code_synchronous_quick_start():
    sandbox = SandboxSync.create(
        "opensandbox/code-interpreter:v1.1.0", connection_config=config(ConnectionConfigSync),
        entrypoint=["/opt/code-interpreter/code-interpreter.sh"], env={"PYTHON_VERSION": "3.11"})
    with sandbox:
        interpreter = CodeInterpreterSync.create(sandbox=sandbox)
        assert interpreter.codes.run("result = 2 + 2\nresult").result[0].text == "4"
        sandbox.kill()


OWN = [quick_start, pool_in_a_loop, lifecycle, custom_health_check, management,
       a_configured_connection, egress_and_vault, code_quick_start]
SHARED = [streaming, files, snapshots, isolated_sessions]
SYNC = [synchronous_quick_start, synchronous_pool, code_synchronous_quick_start]


async def shared(test):
    sandbox = await made()
    try:
        await test(sandbox)
    finally:
        await sandbox.destroy()


def run(coroutine):
    asyncio.run(asyncio.wait_for(coroutine, SECONDS_MAX))


def main():
    global SERVER
    *programs, egress = map(os.path.abspath, sys.argv[1:])
    skip_all(egress_world.why_not())
    egress_world.enter()
    settings = {"egress": {"program": egress, "upstreams": [egress_world.RESOLVER]},
                "embedded": {"dns": [egress_world.RESOLVER]}, "embedded.images": IMAGES}
    tap = Tap()
    with egress_world.Internet(), ServerProcess(*programs, config=settings) as SERVER:
        for test in OWN:
            tap.check(test.__name__, lambda test=test: run(test()))
        for test in SHARED:
            tap.check(test.__name__, lambda test=test: run(shared(test)))
        for test in SYNC:
            tap.check(test.__name__, test)
        if tap.failed:
            print("# " + SERVER.log()[-4000:].replace("\n", "\n# "))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
