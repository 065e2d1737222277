# Written by tools/unasync from _async/commands.py. DO NOT EDIT.
"""Commands, sessions, and the streams of what they print."""

from __future__ import annotations

import re
import shlex
import time
from contextlib import closing
from datetime import timedelta
from typing import Any

from opensandbox._sync import io
from opensandbox._sync.http import UNLIMITED, Http
from opensandbox._sync.io import Stream
from opensandbox._sync.lifecycle import parsed
from opensandbox._core import convert
from opensandbox._core.convert import dense, segment
from opensandbox._core.errors import need_text
from opensandbox._core.events import (
    ExecutionBuilder,
    Progress,
    ended_without_last_event,
    normal,
    public_event,
)
from opensandbox.exceptions import (
    InvalidArgumentException,
    SandboxException,
    SandboxInternalException,
    SandboxReadyTimeoutException,
    SandboxStreamException,
)
from opensandbox.models.execd_sync import ExecutionHandlersSync
from opensandbox.models.execd import (
    CommandLogs,
    CommandStatus,
    Execution,
    ExecutionEvent,
    RunCommandOpts,
)

POLL_SECONDS_MIN, POLL_SECONDS_MAX = 0.02, 1.0
_ENV_KEY = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
_SILENT = ("ping", "status")


def collect(
    batches: Stream[list[dict[str, Any]]],
    handlers: ExecutionHandlersSync | None,
    has_exit_code: bool,
    what: str,
) -> Execution:
    """An Execution of a stream of events. A stream without its last event is an error."""
    builder = ExecutionBuilder(handlers, has_exit_code)
    take = builder.take
    try:
        with closing(batches):
            for batch in batches:
                for event in batch:
                    handler, argument = take(event)
                    if handler is not None:
                        io.call(handler, argument)
    except SandboxStreamException:
        raise
    except SandboxInternalException as error:
        if not builder.ended:
            raise ended_without_last_event(what, error) from error
    if not builder.ended:
        raise ended_without_last_event(what)
    return builder.execution


def normalized(
    batches: Stream[list[dict[str, Any]]],
) -> Stream[list[dict[str, Any]]]:
    """Events, with bare errors made into events."""
    with closing(batches):
        for batch in batches:
            yield [normal(event) for event in batch]


class CommandsSync:
    """Runs commands in a sandbox."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def run(
        self,
        command: str | list[str],
        *,
        opts: RunCommandOpts | None = None,
        handlers: ExecutionHandlersSync | None = None,
    ) -> Execution:
        """Runs a command and waits for its end; in the background, until it has started. A list is
        a program and its arguments, run without a shell."""
        background = opts is not None and opts.background
        return collect(
            self._events(command, opts), handlers, not background, "commands.run"
        )

    def stream(
        self, command: str | list[str], *, opts: RunCommandOpts | None = None
    ) -> Stream[ExecutionEvent]:
        """The events of a command as they come, the last of them execution_complete or error."""
        batches = self._events(command, opts)
        with closing(batches):
            for batch in batches:
                for event in batch:
                    if event.get("type") not in _SILENT:
                        yield public_event(event)

    def _events(
        self, command: str | list[str], opts: RunCommandOpts | None
    ) -> Stream[list[dict[str, Any]]]:
        """The events of a command. When its stream breaks, status and logs tell the rest."""
        body = convert.run_command(command, opts)
        progress = Progress()
        broken: SandboxException | None = None
        batches = self._http.events("POST", "/command", body=body)
        try:
            with closing(batches):
                for batch in batches:
                    batch = [normal(event) for event in batch]
                    for event in batch:
                        progress.take(event)
                    yield batch
        except SandboxInternalException as error:
            broken = error
        if progress.ended:
            return
        if progress.id is None:
            if broken is not None and _not_started(broken):
                raise broken
            raise ended_without_last_event("commands.run", broken)
        background = opts is not None and opts.background
        rest = self._follow_up(progress, background, broken)
        with closing(rest):
            for batch in rest:
                yield batch

    def _follow_up(
        self, progress: Progress, background: bool, broken: SandboxException | None
    ) -> Stream[list[dict[str, Any]]]:
        """The rest of a command whose stream broke, as events."""
        if not progress.countable:
            raise ended_without_last_event("commands.run", broken)
        tails = {name: LogTail(start) for name, start in progress.bytes.items()}
        pause = POLL_SECONDS_MIN
        while True:
            try:
                status = self.get_command_status(str(progress.id))
                if background:
                    yield [{"type": "execution_complete", "timestamp": progress.started_ms}]
                    return
                for name, tail in tails.items():
                    logs = self._logs(str(progress.id), tail.cursor, name)
                    events = tail.feed(name, logs, not status.running)
                    if events:
                        yield events
            except SandboxException as error:
                raise ended_without_last_event("commands.run", broken or error) from error
            if not status.running:
                yield [_last_event(status)]
                return
            io.sleep(pause)
            pause = min(pause * 2, POLL_SECONDS_MAX)

    def set_env(self, key: str, value: str) -> None:
        """Sets a variable for all commands and sessions to come."""
        if not _ENV_KEY.match(key):
            raise InvalidArgumentException(f"{key!r} is no name of a variable")
        if "\0" in value or "'" in value and "\n" in value:
            raise InvalidArgumentException("a value with NUL, or ' and line ends, cannot be kept")
        inner = f"'{value}'" if "'" not in value else '"' + _escaped(value) + '"'
        line = shlex.quote(f"{key}={inner}")
        done = self.run(
            f'test -n "$EXECD_ENVS" || {{ echo EXECD_ENVS is not set >&2; exit 1; }}; '
            f'printf "%s\\n" {line} >> "$EXECD_ENVS"'
        )
        if done.exit_code != 0:
            raise SandboxInternalException(f"set_env: {key} was not kept: {done}")

    def interrupt(self, execution_id: str) -> None:
        """Ends a command."""
        query = {"id": need_text(execution_id, "execution_id")}
        self._http.send("DELETE", "/command", query=query)

    def get_command_status(self, execution_id: str) -> CommandStatus:
        """Whether a command runs, and how it ended."""
        name = segment(need_text(execution_id, "execution_id"))
        answer = self._http.json("GET", f"/command/status/{name}")
        status: CommandStatus = parsed(CommandStatus, answer)
        return status

    def wait(
        self, execution_id: str, *, timeout: timedelta | None = None
    ) -> CommandStatus:
        """Waits for the end of a background command."""
        end = None if timeout is None else time.monotonic() + timeout.total_seconds()
        pause = POLL_SECONDS_MIN
        while True:
            status = self.get_command_status(execution_id)
            if not status.running:
                return status
            if end is not None and time.monotonic() + pause > end:
                raise SandboxReadyTimeoutException(f"{execution_id} still runs after {timeout}")
            io.sleep(pause)
            pause = min(pause * 2, POLL_SECONDS_MAX)

    def get_background_command_logs(
        self, execution_id: str, cursor: int | None = None
    ) -> CommandLogs:
        """What a background command printed, from a byte on."""
        response = self._logs(need_text(execution_id, "execution_id"), cursor, None)
        tail = response.headers.get("EXECD-COMMANDS-TAIL-CURSOR", "")
        return CommandLogs(
            content=response.content.decode("utf-8", "replace"),
            cursor=int(tail) if tail.strip().isdigit() else None,
        )

    def _logs(self, execution_id: str, cursor: int | None, stream: str | None) -> Any:
        return self._http.send(
            "GET",
            f"/command/{segment(execution_id)}/logs",
            query={"cursor": cursor, "stream": stream},
        )

    def write_stdin(
        self, execution_id: str, data: str | bytes = b"", *, eof: bool = False
    ) -> None:
        """Writes to the input of a command that was started with `stdin_open`."""
        self._http.send(
            "POST",
            f"/command/{segment(need_text(execution_id, 'execution_id'))}/stdin",
            query={"eof": "true" if eof else "false"},
            content=data.encode() if isinstance(data, str) else data,
            headers={"Content-Type": "application/octet-stream"},
            timeout=UNLIMITED,
        )

    # --- sessions ---

    def create_session(self, *, working_directory: str | None = None) -> str:
        """Opens a shell that keeps its state between runs; its id."""
        answer = self._http.json("POST", "/session", body=dense(cwd=working_directory))
        return str(answer["session_id"])

    def run_in_session(
        self,
        session_id: str,
        command: str,
        *,
        working_directory: str | None = None,
        timeout: timedelta | None = None,
        handlers: ExecutionHandlersSync | None = None,
    ) -> Execution:
        """Runs a command in a session."""
        name = segment(need_text(session_id, "session_id"))
        body = dense(
            command=need_text(command, "command"),
            cwd=working_directory,
            timeout=convert.milliseconds(timeout),
        )
        batches = normalized(self._http.events("POST", f"/session/{name}/run", body=body))
        return collect(batches, handlers, True, "commands.run_in_session")

    def delete_session(self, session_id: str) -> None:
        """Ends a session."""
        name = segment(need_text(session_id, "session_id"))
        self._http.send("DELETE", f"/session/{name}")


class LogTail:
    """One log of a command, read from a byte on and cut into lines."""

    def __init__(self, cursor: int) -> None:
        self.cursor = cursor
        self.rest = b""

    def feed(self, name: str, response: Any, is_last: bool) -> list[dict[str, Any]]:
        data: bytes = response.content
        self.cursor += len(data)
        lines = (self.rest + data).split(b"\n")
        self.rest = b"" if is_last else lines.pop()
        if is_last and not lines[-1]:
            lines.pop()
        return [
            {"type": name, "text": line.decode("utf-8", "replace") or "\n", "timestamp": 0}
            for line in lines
        ]


def _last_event(status: CommandStatus) -> dict[str, Any]:
    """The event that the stream would have ended with."""
    when = taken = 0
    if status.finished_at is not None:
        when = int(status.finished_at.timestamp() * 1000)
        if status.started_at is not None:
            taken = int((status.finished_at - status.started_at).total_seconds() * 1000)
    if status.exit_code == 0:
        return {"type": "execution_complete", "timestamp": when, "execution_time": taken}
    text = status.error or f"exit status {status.exit_code}"
    error = {"ename": "CommandExecError", "evalue": str(status.exit_code), "traceback": [text]}
    return {"type": "error", "timestamp": when, "error": error}


def _not_started(error: SandboxException) -> bool:
    """Whether a failure came before the answer began: then it is no broken stream."""
    import httpx

    return isinstance(error.__cause__, (httpx.ConnectError, httpx.ConnectTimeout))


def _escaped(value: str) -> str:
    return re.sub(r'([\\"$`])', r"\\\1", value)
