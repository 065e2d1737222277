"""sdk_commands.py - what programs do with `sandbox.commands`."""
import json
import time
from datetime import datetime, timedelta, timezone

from opensandbox.exceptions import SandboxApiException
from opensandbox.models.execd import RunCommandOpts

from sdk_client import SECONDS_MAX, VERSION, done, lines, raises
from tap import Skip


async def run(sandbox, command, **options):
    handlers = options.pop("handlers", None)
    return await done(sandbox.commands.run(
        command, opts=RunCommandOpts(**options) if options else None, handlers=handlers))


def await_file(path):
    """What a command runs to wait for a file."""
    return f"until [ -e {path} ]; do sleep 0.05; done"


async def until(what, ask):
    """The first answer of `ask` that is true."""
    end = time.monotonic() + SECONDS_MAX
    while True:
        answer = await ask()
        if answer:
            return answer
        assert time.monotonic() < end, f"waited {SECONDS_MAX} s for {what}"
        time.sleep(0.02)


async def a_command_tells_stdout_from_stderr(_, sandbox):
    result = await run(sandbox, "echo one; echo two >&2; echo three")
    assert lines(result.logs.stdout) == ["one", "three"], result
    assert lines(result.logs.stderr) == ["two"], result
    assert not result.logs.stdout[0].is_error and result.logs.stderr[0].is_error
    assert result.exit_code == 0 and result.error is None and result.id
    assert result.complete.execution_time_in_millis >= 0
    assert result.text == "one\nthree", result.text


async def a_failing_command_tells_its_exit_code(_, sandbox):
    result = await run(sandbox, "echo before; exit 42")
    assert result.exit_code == 42 and result.complete is None, result
    assert (result.error.name, result.error.value) == ("CommandExecError", "42"), result.error
    assert lines(result.logs.stdout) == ["before"]


async def a_command_that_is_not_there_is_127(_, sandbox):
    result = await run(sandbox, "no-such-program-anywhere")
    assert result.exit_code == 127, result
    assert "no-such-program-anywhere" in result.logs.stderr[0].text


async def handlers_see_events_in_their_order(client, sandbox):
    seen = []
    handlers = client.handlers(
        on_init=lambda event: seen.append(("init", event.id)),
        on_stdout=lambda event: seen.append(("stdout", event.text)),
        on_stderr=lambda event: seen.append(("stderr", event.text)),
        on_execution_complete=lambda event: seen.append(("complete",)),
        on_error=lambda event: seen.append(("error", event.value)))
    result = await run(sandbox, "echo a; sleep 0.3; echo b >&2", handlers=handlers)
    assert seen == [("init", result.id), ("stdout", "a"), ("stderr", "b"), ("complete",)], seen

    seen.clear()
    result = await run(sandbox, "exit 3", handlers=handlers)
    assert seen == [("init", result.id), ("error", "3")], seen


async def output_arrives_while_the_command_runs(client, sandbox):
    """The command continues only after the client received its output."""
    other = await client.connect(sandbox.id)
    said = []

    async def hear():
        await client.until_seen(said)
        await done(other.files.write_file("/tmp/heard", ""))

    await client.gather([
        lambda: run(sandbox, f"echo now; {await_file('/tmp/heard')}; echo later",
                    handlers=client.handlers(on_stdout=lambda event: said.append(event.text))),
        hear])
    assert said == ["now", "later"], said
    await done(other.close())


async def lines_are_events_and_empty_lines_too(_, sandbox):
    result = await run(sandbox, r"printf 'a\n\nb\n\n\nc'")
    assert lines(result.logs.stdout) == ["a", "\n", "b", "\n", "\n", "c"], result


async def text_is_utf8_from_end_to_end(_, sandbox):
    result = await run(sandbox, "echo 'grüße 世界 🦀' | tr a-z A-Z")
    assert "世界 🦀" in result.text, result.text


async def much_output_is_whole(_, sandbox):
    result = await run(sandbox, "seq 1 20000")
    got, want = lines(result.logs.stdout), [str(n) for n in range(1, 20001)]
    wrong = next((n for n, pair in enumerate(zip(got, want)) if pair[0] != pair[1]), len(want))
    assert got == want, f"{len(got)} lines; from {wrong} on: {got[wrong:wrong + 3]}"


async def a_long_line_is_whole(_, sandbox):
    result = await run(sandbox, "head -c 300000 /dev/zero | tr '\\0' x; echo")
    assert result.text == "x" * 300000


async def a_command_runs_in_the_given_directory(_, sandbox):
    result = await run(sandbox, "pwd", working_directory="/usr/bin")
    assert result.text == "/usr/bin", result
    error = await raises(SandboxApiException,
                         lambda: run(sandbox, "pwd", working_directory="/not/there"))
    assert error.status_code == 400, error


async def a_command_gets_its_variables(_, sandbox):
    result = await run(sandbox, 'echo "$FIRST/$SECOND"', envs={"FIRST": "1", "SECOND": "a b"})
    assert result.text == "1/a b", result
    assert (await run(sandbox, 'echo "[$FIRST]"')).text == "[]"


async def a_command_runs_as_the_given_user(_, sandbox):
    result = await run(sandbox, "id -u; id -g", uid=1000, gid=1001)
    assert lines(result.logs.stdout) == ["1000", "1001"], result
    assert (await run(sandbox, "id -u")).text == "0"


async def a_command_ends_at_its_timeout(_, sandbox):
    begin = time.monotonic()
    result = await run(sandbox, "echo started; sleep 30", timeout=timedelta(seconds=1))
    seconds = time.monotonic() - begin
    assert seconds > 0.9, seconds
    assert result.error is not None and result.exit_code != 0, result


async def the_status_of_a_finished_command_is_kept(_, sandbox):
    begin = datetime.now(timezone.utc)
    result = await run(sandbox, "sleep 0.2; exit 5")
    status = await done(sandbox.commands.get_command_status(result.id))
    assert status.id == result.id and status.running is False and status.exit_code == 5, status
    assert status.content == "sleep 0.2; exit 5", status
    assert begin - timedelta(seconds=5) < status.started_at < status.finished_at, status


async def a_background_command_has_status_and_logs(_, sandbox):
    result = await run(sandbox, f"echo one; {await_file('/tmp/go-on')}; echo two >&2; exit 7",
                       background=True)
    assert result.id and result.exit_code is None, result
    status = await done(sandbox.commands.get_command_status(result.id))
    assert status.running is True and status.exit_code is None, status

    async def first():
        logs = await done(sandbox.commands.get_background_command_logs(result.id))
        return logs if logs.content else None
    logs = await until("the first line", first)
    assert logs.content == "one\n" and logs.cursor is not None, logs
    await done(sandbox.files.write_file("/tmp/go-on", ""))

    async def finished():
        status = await done(sandbox.commands.get_command_status(result.id))
        return None if status.running else status
    status = await until("its end", finished)
    assert status.exit_code == 7 and status.finished_at > status.started_at, status
    rest = await done(sandbox.commands.get_background_command_logs(result.id, cursor=logs.cursor))
    assert rest.content == "two\n" and rest.cursor > logs.cursor, rest
    none = await done(sandbox.commands.get_background_command_logs(result.id, cursor=rest.cursor))
    assert none.content == "" and none.cursor == rest.cursor, none


async def a_background_command_is_interrupted(_, sandbox):
    result = await run(sandbox, "sleep 60", background=True)
    await done(sandbox.commands.interrupt(result.id))

    async def finished():
        status = await done(sandbox.commands.get_command_status(result.id))
        return None if status.running else status
    status = await until("its end", finished)
    assert status.exit_code != 0, status


async def a_foreground_command_is_interrupted(client, sandbox):
    """By another client, once it has said its id."""
    other = await client.connect(sandbox.id)
    ids = []

    async def long():
        return await run(sandbox, "sleep 60", handlers=client.handlers(
            on_init=lambda event: ids.append(event.id)))

    async def interrupt():
        await client.until_seen(ids)
        await done(other.commands.interrupt(ids[0]))

    result, _ = await client.gather([long, interrupt])
    assert result.error is not None and result.exit_code != 0, result
    await done(other.close())


async def an_unknown_command_is_an_error(_, sandbox):
    error = await raises(SandboxApiException,
                         lambda: sandbox.commands.get_command_status("no-such-command"))
    assert error.status_code == 404, error
    error = await raises(SandboxApiException,
                         lambda: sandbox.commands.interrupt("no-such-command"))
    assert error.status_code >= 400, error


async def programs_of_the_image_run(_, sandbox):
    result = await run(sandbox, "python3 -c 'print(6 * 7)' | sed s/^/=/")
    assert result.text == "=42", result


async def programs_beside_go_run(_, sandbox):
    where = "/usr/local/go/bin/beside-go"
    await done(sandbox.files.write_file(where, "#!/bin/sh\necho found\n", mode=755))
    for command in ("beside-go", "bash -lc beside-go"):
        assert (await run(sandbox, command)).text == "found", command
    await done(sandbox.files.delete_files([where]))


async def scripts_for_the_code_interpreters_image_run(_, sandbox):
    result = await run(sandbox, "bash -lc 'source /opt/code-interpreter/code-interpreter-env.sh "
                                "python ${PYTHON_VERSION:-3.14} && python3 -c \"print(6 * 7)\"'")
    assert result.text == "42", result


async def packages_may_be_installed(_, sandbox):
    """pip finds no such package, but must not refuse to install at all (PEP 668)."""
    result = await run(sandbox, "python3 -m pip install --no-index no-such-package 2>&1")
    assert "externally-managed" not in result.text, result.text


async def a_program_runs_without_a_shell(_, sandbox):
    if VERSION.startswith("0."):
        raise Skip(f"opensandbox {VERSION} has shell commands only")
    result = await run(sandbox, ["printf", "%s|", "a b", "$HOME", "*"])
    assert result.text == "a b|$HOME|*|", result


async def a_variable_is_set_for_all_that_follows(_, sandbox):
    if not hasattr(sandbox.commands, "set_env"):
        raise Skip(f"opensandbox {VERSION} has no set_env")
    values = {"PLAIN": "a $HOME b ", "TEXT": 'one\n"two"\n', "QUOTE": "it's \\ \"so\"\t",
              "EMPTY": ""}
    for name, value in values.items():
        await done(sandbox.commands.set_env(name, value))
    command = ("python3 -c 'import json, os, sys; print(json.dumps({n: os.environ[n] for n in "
               f"sys.argv[1:]}}))' {' '.join(values)}")
    session = await done(sandbox.commands.create_session())
    for result in (await run(sandbox, command),
                   await done(sandbox.commands.run_in_session(session, command))):
        assert json.loads(result.text) == values, result
    await done(sandbox.commands.delete_session(session))
    await done(sandbox.commands.set_env("PLAIN", "later"))
    assert (await run(sandbox, "echo $PLAIN")).text == "later"


async def a_handler_that_raises_ends_the_call(client, sandbox):
    class Enough(Exception):
        pass

    def refuse(_):
        raise Enough("enough")
    await raises(Exception, lambda: run(sandbox, "echo x; sleep 0.1; echo y",
                                        handlers=client.handlers(on_stdout=refuse)))
    assert (await run(sandbox, "echo still here")).text == "still here"


TESTS = [
    a_command_tells_stdout_from_stderr,
    a_failing_command_tells_its_exit_code,
    a_command_that_is_not_there_is_127,
    handlers_see_events_in_their_order,
    output_arrives_while_the_command_runs,
    lines_are_events_and_empty_lines_too,
    text_is_utf8_from_end_to_end,
    much_output_is_whole,
    a_long_line_is_whole,
    a_command_runs_in_the_given_directory,
    a_command_gets_its_variables,
    a_command_runs_as_the_given_user,
    a_command_ends_at_its_timeout,
    the_status_of_a_finished_command_is_kept,
    a_background_command_has_status_and_logs,
    a_background_command_is_interrupted,
    a_foreground_command_is_interrupted,
    an_unknown_command_is_an_error,
    programs_of_the_image_run,
    programs_beside_go_run,
    scripts_for_the_code_interpreters_image_run,
    packages_may_be_installed,
    a_program_runs_without_a_shell,
    a_variable_is_set_for_all_that_follows,
    a_handler_that_raises_ends_the_call,
]
