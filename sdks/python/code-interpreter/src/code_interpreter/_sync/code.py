# Written by tools/unasync from _async/code.py. DO NOT EDIT.
"""CodeInterpreter: runs cells in a sandbox."""

from __future__ import annotations

import time
from contextlib import closing
from datetime import timedelta
from typing import Any

from code_interpreter.models import CodeContextSync
from opensandbox._sync.commands import CommandsSync, collect, normalized
from opensandbox._sync.files import FilesystemSync
from opensandbox._sync.http import Http
from opensandbox._sync.io import Stream, sleep
from opensandbox._sync.lifecycle import parsed
from opensandbox._sync.metrics import MetricsSync
from opensandbox._sync.sandbox import SandboxSync
from opensandbox._core.convert import dense, milliseconds, segment
from opensandbox._core.errors import need_text
from opensandbox._core.events import ended_without_last_event, public_event
from opensandbox.exceptions import (
    InvalidArgumentException,
    SandboxException,
    SandboxInternalException,
    SandboxReadyTimeoutException,
)
from opensandbox.models.execd_sync import ExecutionHandlersSync
from opensandbox.models.execd import Execution, ExecutionEvent

DEFAULT_LANGUAGE = "python"


class CodesSync:
    """Contexts, and cells that run in them."""

    def __init__(self, http: Http) -> None:
        self._http = http

    def create_context(
        self,
        language: str,
        *,
        working_directory: str | None = None,
        envs: dict[str, str] | None = None,
    ) -> CodeContextSync:
        """A context of its own: what its cells define, no other sees."""
        body = dense(language=need_text(language, "language"), cwd=working_directory, envs=envs)
        context: CodeContextSync = parsed(
            CodeContextSync, self._http.json("POST", "/code/context", body=body)
        )
        return context

    def get_context(self, context_id: str) -> CodeContextSync:
        path = f"/code/contexts/{segment(need_text(context_id, 'context_id'))}"
        context: CodeContextSync = parsed(CodeContextSync, self._http.json("GET", path))
        return context

    def list_contexts(self, language: str) -> list[CodeContextSync]:
        query = {"language": need_text(language, "language")}
        answer = self._http.json("GET", "/code/contexts", query=query)
        return [parsed(CodeContextSync, row) for row in answer or []]

    def delete_context(self, context_id: str) -> None:
        path = f"/code/contexts/{segment(need_text(context_id, 'context_id'))}"
        self._http.send("DELETE", path)

    def delete_contexts(self, language: str) -> None:
        """Ends all contexts of a language."""
        query = {"language": need_text(language, "language")}
        self._http.send("DELETE", "/code/contexts", query=query)

    def run(
        self,
        code: str,
        *,
        language: str | None = None,
        context: CodeContextSync | None = None,
        timeout: timedelta | None = None,
        handlers: ExecutionHandlersSync | None = None,
    ) -> Execution:
        """Runs a cell: in a context, or in the default one of a language, which is Python."""
        batches = normalized(
            self._http.events("POST", "/code", body=_body(code, language, context, timeout))
        )
        return collect(batches, handlers, False, "codes.run")

    def stream(
        self,
        code: str,
        *,
        language: str | None = None,
        context: CodeContextSync | None = None,
        timeout: timedelta | None = None,
    ) -> Stream[ExecutionEvent]:
        """The events of a cell as they come."""
        body, ended = _body(code, language, context, timeout), False
        batches = normalized(self._http.events("POST", "/code", body=body))
        try:
            with closing(batches):
                for batch in batches:
                    for event in batch:
                        ended = ended or event.get("type") in ("execution_complete", "error")
                        if event.get("type") not in ("ping", "status"):
                            yield public_event(event)
        except SandboxInternalException as error:
            if not ended:
                raise ended_without_last_event("codes.stream", error) from error
        if not ended:
            raise ended_without_last_event("codes.stream")

    def interrupt(self, execution_id: str) -> None:
        """Interrupts the cell of a context, as Ctrl-C does."""
        query = {"id": need_text(execution_id, "execution_id")}
        self._http.send("DELETE", "/code", query=query)

    def ping(self) -> bool:
        """Whether the interpreter answers; never raises."""
        try:
            self._http.send("GET", "/ping", repeat=False)
            return True
        except SandboxException:
            return False


class CodeInterpreterSync:
    """A sandbox with its code service."""

    def __init__(self, sandbox: SandboxSync, code_service: CodesSync) -> None:
        self._sandbox, self._codes = sandbox, code_service

    @property
    def sandbox(self) -> SandboxSync:
        return self._sandbox

    @property
    def id(self) -> str:
        return self._sandbox.id

    @property
    def files(self) -> FilesystemSync:
        return self._sandbox.files

    @property
    def commands(self) -> CommandsSync:
        return self._sandbox.commands

    @property
    def metrics(self) -> MetricsSync:
        return self._sandbox.metrics

    @property
    def codes(self) -> CodesSync:
        return self._codes

    def close(self) -> None:
        """Has nothing to free: connections are the sandbox's."""

    def ping(self) -> bool:
        return self._codes.ping()

    def is_healthy(self) -> bool:
        """Whether the interpreter answers; never raises."""
        return self.ping()

    def check_ready(self, timeout: timedelta, polling_interval: timedelta) -> None:
        """Waits until the interpreter answers."""
        end = time.monotonic() + timeout.total_seconds()
        while not self.ping():
            if time.monotonic() > end:
                raise SandboxReadyTimeoutException(
                    f"the interpreter of {self.id} did not answer within {timeout}"
                )
            sleep(polling_interval.total_seconds())

    @classmethod
    def create(
        cls,
        sandbox: SandboxSync,
        *,
        ready_timeout: timedelta = timedelta(seconds=30),
        health_check_polling_interval: timedelta = timedelta(milliseconds=200),
        skip_health_check: bool = False,
    ) -> CodeInterpreterSync:
        """The interpreter of a sandbox. It uses the sandbox's connections."""
        interpreter = cls(sandbox, CodesSync(sandbox._execd))
        if not skip_health_check:
            interpreter.check_ready(ready_timeout, health_check_polling_interval)
        return interpreter


def _body(
    code: str, language: str | None, context: CodeContextSync | None, timeout: timedelta | None
) -> dict[str, Any]:
    need_text(code, "code")
    if context is not None and language is not None and context.language != language:
        raise InvalidArgumentException(
            f"the context is of {context.language}, the language given is {language}"
        )
    where = dense(
        id=context.id if context else None,
        language=context.language if context else language or DEFAULT_LANGUAGE,
    )
    return dense(code=code, context=where, timeout=milliseconds(timeout))
