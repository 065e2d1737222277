"""sdk_sessions.py - what programs do with shell sessions of `sandbox.commands`."""
import contextlib
from datetime import timedelta

from opensandbox.exceptions import SandboxApiException

from sdk_client import VERSION, done, lines, raises


@contextlib.asynccontextmanager
async def session(sandbox, **options):
    """Its runs: await run("command", ...)."""
    session_id = await done(sandbox.commands.create_session(**options))

    async def run(command, **more):
        return await done(sandbox.commands.run_in_session(session_id, command, **more))

    run.id = session_id
    yield run
    await done(sandbox.commands.delete_session(session_id))


async def a_session_keeps_its_state(_, sandbox):
    async with session(sandbox, working_directory="/tmp") as run:
        first = await run("pwd; export A='it'\\''s $a'; plain=1; f() { echo \"f $1\"; }")
        assert (first.text, first.exit_code, first.id) == ("/tmp", 0, run.id), first
        assert first.error is None and first.complete is not None
        second = await run("echo \"$A\"; f $plain; cd /usr; echo; echo e >&2")
        assert lines(second.logs.stdout) == ["it's $a", "f 1", "\n"], second
        assert lines(second.logs.stderr) == ["e"], second
        assert (await run("pwd")).text == "/usr"
        assert (await run("pwd", working_directory="/var")).text == "/var"
        assert (await run("pwd")).text == "/var"


async def a_session_tells_exit_codes_and_outlives_them(_, sandbox):
    async with session(sandbox) as run:
        for command, code in (("false", 1), ("(exit 42)", 42), ("exit 7", 7), ("'", 2),
                              ("no-such-program-anywhere", 127)):
            result = await run(command)
            assert (result.exit_code, result.complete) == (code, None), (command, result)
            assert result.error.name == "CommandExecError" and result.error.value == str(code)
        assert (await run("echo still here")).text == "still here"


async def what_a_session_prints_is_no_exit_code(_, sandbox):
    async with session(sandbox) as run:
        result = await run("echo __EXIT_CODE__:7; echo __ENV_DUMP_START__; echo __PWD__:/x")
        assert lines(result.logs.stdout) == ["__EXIT_CODE__:7", "__ENV_DUMP_START__", "__PWD__:/x"]
        assert result.exit_code == 0, result


async def a_session_outlives_a_timeout(_, sandbox):
    async with session(sandbox) as run:
        await run("kept=yes")
        for command in ("sleep 60", "while :; do :; done"):
            result = await run(command, timeout=timedelta(milliseconds=300))
            assert result.exit_code == -1, result
            assert result.error.traceback[0].startswith("timeout after 300ms"), result
        assert (await run("echo $kept")).text == "yes"


async def a_session_is_interrupted_and_goes_on(client, sandbox):
    """By another client, once it has said something."""
    other = await client.connect(sandbox.id)
    said = []

    async def interrupt():
        await client.until_seen(said)
        await done(other.commands.interrupt(run.id))

    async with session(sandbox) as run:
        await run("kept=yes")
        result, _ = await client.gather([
            lambda: run("echo begun; sleep 60", handlers=client.handlers(on_stdout=said.append)),
            interrupt])
        assert (result.exit_code, result.error.traceback) == (-1, ["signal: interrupt"]), result
        assert (await run("echo $kept")).text == "yes"
    await done(other.close())


async def handlers_see_a_run_of_a_session(client, sandbox):
    seen = []
    handlers = client.handlers(
        on_init=lambda event: seen.append(("init", event.id)),
        on_stdout=lambda event: seen.append(("stdout", event.text)),
        on_stderr=lambda event: seen.append(("stderr", event.text)),
        on_execution_complete=lambda event: seen.append(("complete",)),
        on_error=lambda event: seen.append(("error", event.value)))
    async with session(sandbox) as run:
        await run("echo a; sleep 0.3; echo b >&2", handlers=handlers)
        await run("exit 3", handlers=handlers)
        assert seen == [("init", run.id), ("stdout", "a"), ("stderr", "b"), ("complete",),
                        ("init", run.id), ("error", "3")], seen


async def unknown_sessions_are_errors(_, sandbox):
    async with session(sandbox) as run:
        gone = run.id
    error = await raises(SandboxApiException,
                         lambda: sandbox.commands.run_in_session(gone, "true"))
    assert error.status_code == 500, error
    if VERSION.startswith("0."):
        return  # its sync client does not look at the answer to a delete
    error = await raises(SandboxApiException, lambda: sandbox.commands.delete_session(gone))
    assert error.status_code == 404, error


TESTS = [
    a_session_keeps_its_state,
    a_session_tells_exit_codes_and_outlives_them,
    what_a_session_prints_is_no_exit_code,
    a_session_outlives_a_timeout,
    a_session_is_interrupted_and_goes_on,
    handlers_see_a_run_of_a_session,
    unknown_sessions_are_errors,
]
