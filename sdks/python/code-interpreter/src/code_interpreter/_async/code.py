"""CodeInterpreter: runs cells in a sandbox."""

from __future__ import annotations

import time
from contextlib import aclosing
from datetime import timedelta
from typing import Any

from code_interpreter.models import CodeContext
from opensandbox._async.commands import Commands, collect, normalized
from opensandbox._async.files import Filesystem
from opensandbox._async.http import Http
from opensandbox._async.io import Stream, sleep
from opensandbox._async.lifecycle import parsed
from opensandbox._async.metrics import Metrics
from opensandbox._async.sandbox import Sandbox
from opensandbox._core.convert import dense, milliseconds, segment
from opensandbox._core.errors import need_text
from opensandbox._core.events import ended_without_last_event, public_event
from opensandbox.exceptions import (
    InvalidArgumentException,
    SandboxException,
    SandboxInternalException,
    SandboxReadyTimeoutException,
)
from opensandbox.models.execd import ExecutionHandlers
from opensandbox.models.execd import Execution, ExecutionEvent

DEFAULT_LANGUAGE = "python"


class Codes:
    """Contexts, and cells that run in them."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def create_context(
        self,
        language: str,
        *,
        working_directory: str | None = None,
        envs: dict[str, str] | None = None,
    ) -> CodeContext:
        """A context of its own: what its cells define, no other sees."""
        body = dense(language=need_text(language, "language"), cwd=working_directory, envs=envs)
        context: CodeContext = parsed(
            CodeContext, await self._http.json("POST", "/code/context", body=body)
        )
        return context

    async def get_context(self, context_id: str) -> CodeContext:
        path = f"/code/contexts/{segment(need_text(context_id, 'context_id'))}"
        context: CodeContext = parsed(CodeContext, await self._http.json("GET", path))
        return context

    async def list_contexts(self, language: str) -> list[CodeContext]:
        query = {"language": need_text(language, "language")}
        answer = await self._http.json("GET", "/code/contexts", query=query)
        return [parsed(CodeContext, row) for row in answer or []]

    async def delete_context(self, context_id: str) -> None:
        path = f"/code/contexts/{segment(need_text(context_id, 'context_id'))}"
        await self._http.send("DELETE", path)

    async def delete_contexts(self, language: str) -> None:
        """Ends all contexts of a language."""
        query = {"language": need_text(language, "language")}
        await self._http.send("DELETE", "/code/contexts", query=query)

    async def run(
        self,
        code: str,
        *,
        language: str | None = None,
        context: CodeContext | None = None,
        timeout: timedelta | None = None,
        handlers: ExecutionHandlers | None = None,
    ) -> Execution:
        """Runs a cell: in a context, or in the default one of a language, which is Python."""
        batches = normalized(
            self._http.events("POST", "/code", body=_body(code, language, context, timeout))
        )
        return await collect(batches, handlers, False, "codes.run")

    async def stream(
        self,
        code: str,
        *,
        language: str | None = None,
        context: CodeContext | None = None,
        timeout: timedelta | None = None,
    ) -> Stream[ExecutionEvent]:
        """The events of a cell as they come."""
        body, ended = _body(code, language, context, timeout), False
        batches = normalized(self._http.events("POST", "/code", body=body))
        try:
            async with aclosing(batches):
                async for batch in batches:
                    for event in batch:
                        ended = ended or event.get("type") in ("execution_complete", "error")
                        if event.get("type") not in ("ping", "status"):
                            yield public_event(event)
        except SandboxInternalException as error:
            if not ended:
                raise ended_without_last_event("codes.stream", error) from error
        if not ended:
            raise ended_without_last_event("codes.stream")

    async def interrupt(self, execution_id: str) -> None:
        """Interrupts the cell of a context, as Ctrl-C does."""
        query = {"id": need_text(execution_id, "execution_id")}
        await self._http.send("DELETE", "/code", query=query)

    async def ping(self) -> bool:
        """Whether the interpreter answers; never raises."""
        try:
            await self._http.send("GET", "/ping", repeat=False)
            return True
        except SandboxException:
            return False


class CodeInterpreter:
    """A sandbox with its code service."""

    def __init__(self, sandbox: Sandbox, code_service: Codes) -> None:
        self._sandbox, self._codes = sandbox, code_service

    @property
    def sandbox(self) -> Sandbox:
        return self._sandbox

    @property
    def id(self) -> str:
        return self._sandbox.id

    @property
    def files(self) -> Filesystem:
        return self._sandbox.files

    @property
    def commands(self) -> Commands:
        return self._sandbox.commands

    @property
    def metrics(self) -> Metrics:
        return self._sandbox.metrics

    @property
    def codes(self) -> Codes:
        return self._codes

    async def aclose(self) -> None:
        """Has nothing to free: connections are the sandbox's."""

    async def ping(self) -> bool:
        return await self._codes.ping()

    async def is_healthy(self) -> bool:
        """Whether the interpreter answers; never raises."""
        return await self.ping()

    async def check_ready(self, timeout: timedelta, polling_interval: timedelta) -> None:
        """Waits until the interpreter answers."""
        end = time.monotonic() + timeout.total_seconds()
        while not await self.ping():
            if time.monotonic() > end:
                raise SandboxReadyTimeoutException(
                    f"the interpreter of {self.id} did not answer within {timeout}"
                )
            await sleep(polling_interval.total_seconds())

    @classmethod
    async def create(
        cls,
        sandbox: Sandbox,
        *,
        ready_timeout: timedelta = timedelta(seconds=30),
        health_check_polling_interval: timedelta = timedelta(milliseconds=200),
        skip_health_check: bool = False,
    ) -> CodeInterpreter:
        """The interpreter of a sandbox. It uses the sandbox's connections."""
        interpreter = cls(sandbox, Codes(sandbox._execd))
        if not skip_health_check:
            await interpreter.check_ready(ready_timeout, health_check_polling_interval)
        return interpreter


def _body(
    code: str, language: str | None, context: CodeContext | None, timeout: timedelta | None
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
