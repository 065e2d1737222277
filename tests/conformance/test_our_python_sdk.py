#!/usr/bin/env python3
"""test_our_python_sdk.py SERVER BROKER EXECD SANDBOXCTL - our Python SDK: generated files, types,
lint, the conformance cases against the real server, terminals, watches, pools in Redis. Prints TAP.
It must be run by the Python of build/deps/sdk-ours."""
import asyncio
import io
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import threading
from datetime import timedelta

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SDK = ROOT / "sdks/python"
sys.path[:0] = [str(HERE.parent / "tools"), str(HERE.parent / "integration")]

from server_process import SECONDS_MAX, ServerProcess, wait_for, why_not  # noqa: E402
from tap import Skip, Tap, skip_all  # noqa: E402

from opensandbox import (  # noqa: E402
    AcquirePolicy,
    PoolCreationSpec,
    Sandbox,
    SandboxPoolAsync,
    SandboxPoolManagerSync,
    SandboxPoolSync,
    SandboxSync,
)
from opensandbox.config import ConnectionConfig, ConnectionConfigSync  # noqa: E402
from opensandbox.exceptions import PoolDestroyedException, PoolEmptyException  # noqa: E402
from opensandbox.models import RunCommandOpts, SearchEntry  # noqa: E402
from opensandbox.models.isolated import (  # noqa: E402
    CreateIsolatedSessionRequest,
    IsolatedWorkspaceSpec,
)
from opensandbox.pool_redis import AsyncRedisPoolStateStore, RedisPoolStateStore  # noqa: E402

SERVER = None
PACKAGES = ["src/opensandbox", "code-interpreter/src/code_interpreter"]


def run(*command, cwd=SDK):
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def config(kind=ConnectionConfigSync, **more):
    return kind(domain=SERVER.domain, api_key=SERVER.api_key, **more)


# --- static checks ---


def models_are_those_of_the_specifications():
    run(sys.executable, ROOT / "tools/sdkgen", "--check")


def the_sync_client_is_made_of_the_async_one():
    run(sys.executable, ROOT / "tools/unasync", "--check")


def types_are_strict():
    with tempfile.TemporaryDirectory(prefix="osb-mypy-") as cache:
        run(sys.executable, "-m", "mypy", "--cache-dir", cache, *PACKAGES)


def lint_is_clean():
    run(sys.executable, "-m", "ruff", "check", "--no-cache", *PACKAGES)


# --- the cases ---


def the_cases_hold_against_the_real_server(kind):
    done = subprocess.run(
        [sys.executable, SDK / "tests/conformance.py", kind, "--real", SERVER.domain,
         SERVER.api_key, "host"], capture_output=True, text=True, check=False,
        timeout=SECONDS_MAX * 3)
    assert done.returncode == 0 and "# SKIP" not in done.stdout, done.stdout + done.stderr


# --- what has no case ---


def a_terminal_is_typed_into():
    with SandboxSync.create("host", connection_config=config()) as sandbox:
        with sandbox.open_pty() as pty:
            pty.resize(100, 40)
            pty.write("stty size; exit 7\n")
            text = b"".join(pty.output()).decode()
            assert "40 100" in text and pty.exit_code == 7, (text, pty.exit_code)
        sandbox.kill()


async def terminal_again():
    async with await Sandbox.create("host", connection_config=config(ConnectionConfig)) as sandbox:
        pty = await sandbox.open_pty("for n in 1 2 3; do echo line $n; read x; done; exit 3")
        text = b""
        async for data in pty.output():
            text += data
            if text.count(b"line") == 1 and b"\n" in text:
                break
        await pty.close()
        pty = await sandbox.attach_pty(pty.session_id, offset=pty.offset)
        await pty.write("\n\n\n")
        async for data in pty.output():
            text += data
        assert re.findall(rb"line \d", text) == [b"line 1", b"line 2", b"line 3"], text
        assert pty.exit_code == 3
        await sandbox.kill()


def a_terminal_is_attached_again_from_its_next_byte():
    asyncio.run(asyncio.wait_for(terminal_again(), SECONDS_MAX))


def input_is_written_to_a_command():
    with SandboxSync.create("host", connection_config=config()) as sandbox:
        started, ids = threading.Event(), []

        def write():
            started.wait(SECONDS_MAX)
            other = SandboxSync.connect(sandbox.id, connection_config=config())
            other.commands.write_stdin(ids[0], "b\na\n")
            other.commands.write_stdin(ids[0], eof=True)
            other.close()

        thread = threading.Thread(target=write)
        thread.start()
        lines = []
        for event in sandbox.commands.stream("sort", opts=RunCommandOpts(stdin_open=True)):
            if event.type == "init":
                ids.append(event.text)
                started.set()
            elif event.type == "stdout":
                lines.append(event.text)
        thread.join(SECONDS_MAX)
        assert lines == ["a", "b"], lines
        sandbox.kill()


def directories_are_copied_both_ways():
    with tempfile.TemporaryDirectory(prefix="osb-copy-") as name, \
            SandboxSync.create("host", connection_config=config()) as sandbox:
        here = pathlib.Path(name)
        (here / "in/deep/er").mkdir(parents=True)
        (here / "in/deep/er/ü.txt").write_text("text")
        (here / "in/run").write_text("#!/bin/sh\n")
        (here / "in/run").chmod(0o755)
        sandbox.files.upload_directory(here / "in", "/tmp/copied")
        done = sandbox.commands.run("cat /tmp/copied/deep/er/*; test -x /tmp/copied/run")
        assert done.exit_code == 0 and done.text == "text", done
        sandbox.files.download_directory("/tmp/copied", here / "out")
        assert (here / "out/deep/er/ü.txt").read_text() == "text"
        sandbox.kill()


async def watch():
    async with await Sandbox.create("host", connection_config=config(ConnectionConfig)) as sandbox:
        await sandbox.commands.run("mkdir /tmp/watched")
        # Beside the watch: files come until one of them is seen.
        maker = await sandbox.commands.run(
            "while :; do touch /tmp/watched/f; rm /tmp/watched/f; sleep 0.05; done",
            opts=RunCommandOpts(background=True))
        stream = sandbox.files.watch("/tmp/watched")
        async for event in stream:
            if event.type == "create":
                assert event.path == "/tmp/watched/f", event
                break
        await stream.aclose()
        await sandbox.commands.interrupt(maker.id)
        await sandbox.kill()


def files_are_watched():
    asyncio.run(asyncio.wait_for(watch(), SECONDS_MAX))


def what_an_isolated_session_wrote_is_seen_and_kept():
    with SandboxSync.create("host", connection_config=config()) as sandbox:
        sandbox.commands.run("mkdir -p /workspace")
        request = CreateIsolatedSessionRequest(
            workspace=IsolatedWorkspaceSpec(path="/workspace", mode="overlay"))
        with sandbox.isolation.session(request) as session:
            assert session.run("echo x > /workspace/f").exit_code == 0
            packed = io.BytesIO(b"".join(session.diff()))
            with tarfile.open(fileobj=packed, mode="r:gz") as archive:
                names = [name.split("/")[-1] for name in archive.getnames()]
            assert "f" in names, names
            assert not sandbox.files.search(SearchEntry(path="/workspace", pattern="f"))
            session.commit(reset_upper_after=True)
            assert sandbox.files.read_file("/workspace/f") == "x\n"
        sandbox.kill()


# --- pools in Redis ---


class Redis:
    """A server of its own on a socket of its own."""

    def __enter__(self):
        if not shutil.which("redis-server"):
            raise Skip("needs redis-server")
        self.folder = tempfile.TemporaryDirectory(prefix="osb-redis-")
        self.path = f"{self.folder.name}/redis.sock"
        self.process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", self.path, "--save", "", "--dir",
             self.folder.name], stdout=subprocess.DEVNULL)
        wait_for(self.answers, "redis")
        return self

    def answers(self):
        try:
            with socket.socket(socket.AF_UNIX) as sock:
                sock.connect(self.path)
                return True
        except OSError:
            return False

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(SECONDS_MAX)
        self.folder.cleanup()


def two_processes_share_a_pool_in_redis():
    import redis
    spec = PoolCreationSpec(image="host", resource={"cpu": "1", "memory": "256Mi"})
    with Redis() as server:
        client = redis.Redis(unix_socket_path=server.path)
        store = RedisPoolStateStore(client)
        pools = [SandboxPoolSync(pool_name="shared", max_idle=2, state_store=store,
                                 connection_config=config(), creation_spec=spec) for _ in range(2)]
        for pool in pools:
            pool.start()
        wait_for(lambda: pools[1].snapshot().idle_count == 2, "idle sandboxes")
        keys = sorted(key.decode() for key in client.keys())
        assert "opensandbox:pool:{c2hhcmVk}:idle:list" in keys, keys
        pools[0].resize(0)
        wait_for(lambda: pools[1].snapshot().idle_count == 0, "the end of idle sandboxes")
        try:
            pools[1].acquire(policy=AcquirePolicy.FAIL_FAST)
            raise AssertionError("an empty pool gave a sandbox")
        except PoolEmptyException:
            pass
        pools[0].resize(1)
        wait_for(lambda: pools[1].snapshot().idle_count == 1, "an idle sandbox")
        with pools[1].acquire(policy=AcquirePolicy.FAIL_FAST) as sandbox:
            assert sandbox.commands.run("echo x").text == "x"
            sandbox.kill()
        manager = SandboxPoolManagerSync(state_store=store, connection_config=config())
        for pool in pools:
            pool.shutdown()
        manager.destroy("shared")
        try:
            pools[0].start()
            raise AssertionError("a destroyed pool started")
        except PoolDestroyedException:
            pass
        client.close()


async def async_pool(path):
    from redis import asyncio as redis
    client = redis.Redis(unix_socket_path=path)
    spec = PoolCreationSpec(image="host", resource={"cpu": "1", "memory": "256Mi"})
    pool = SandboxPoolAsync(pool_name="a", max_idle=1, state_store=AsyncRedisPoolStateStore(client),
                            connection_config=config(ConnectionConfig), creation_spec=spec)
    async with pool:
        while (await pool.snapshot()).idle_count < 1:
            await asyncio.sleep(0.02)
        entries = await pool.snapshot_idle_entries()
        async with await pool.acquire(timedelta(minutes=5)) as sandbox:
            assert sandbox.id == entries[0].sandbox_id
            await sandbox.kill()
        await pool.shutdown(release_idle=True)
    await client.aclose()


def the_async_pool_keeps_its_state_in_redis():
    with Redis() as server:
        asyncio.run(asyncio.wait_for(async_pool(server.path), SECONDS_MAX))


STATIC = [models_are_those_of_the_specifications, the_sync_client_is_made_of_the_async_one,
          types_are_strict, lint_is_clean]
TESTS = [a_terminal_is_typed_into, a_terminal_is_attached_again_from_its_next_byte,
         input_is_written_to_a_command, directories_are_copied_both_ways, files_are_watched,
         what_an_isolated_session_wrote_is_seen_and_kept,
         two_processes_share_a_pool_in_redis, the_async_pool_keeps_its_state_in_redis]


def main():
    global SERVER
    skip_all(why_not())
    tap = Tap()
    for test in STATIC:
        tap.check(test.__name__, test)
    with ServerProcess(*sys.argv[1:5]) as SERVER:
        for kind in ("async", "sync"):
            tap.check(f"the cases hold against the real server, {kind}",
                      the_cases_hold_against_the_real_server, kind)
        for test in TESTS:
            tap.check(test.__name__, test)
        if tap.failed:
            print("# " + SERVER.log()[-4000:].replace("\n", "\n# "))
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
