"""Models of commands and code: what runs, and what came of it."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

from pydantic import Field, model_validator

from opensandbox.models._base import Model

AsyncOutputHandler = Callable[[Any], Awaitable[None]]


class OutputMessage(Model):
    """A line of output; `continues` says that it goes on with the line before."""

    text: str
    timestamp: int
    is_error: bool = False
    continues: bool = False


class ExecutionResult(Model):
    """A value of a cell, or something it showed, in one or more MIME types."""

    text: str | None = None
    timestamp: int
    extra_properties: dict[str, str] = Field(default_factory=dict)
    is_display: bool = False

    @property
    def formats(self) -> list[str]:
        """The MIME types there are."""
        return [name for name in self.extra_properties if "/" in name]

    @property
    def html(self) -> str | None:
        return self.extra_properties.get("text/html")

    @property
    def markdown(self) -> str | None:
        return self.extra_properties.get("text/markdown")

    @property
    def svg(self) -> str | None:
        return self.extra_properties.get("image/svg+xml")

    @property
    def png(self) -> bytes | None:
        """The image, decoded."""
        return self._decoded("image/png")

    @property
    def jpeg(self) -> bytes | None:
        return self._decoded("image/jpeg")

    @property
    def json_value(self) -> Any:
        """The value of application/json, decoded; None without one."""
        text = self.extra_properties.get("application/json")
        return json.loads(text) if text is not None else None

    @property
    def chart(self) -> Any:
        """The description of a chart (Vega, Vega-Lite, Plotly), decoded; None without one."""
        for name, text in self.extra_properties.items():
            if name.startswith(("application/vnd.vega", "application/vnd.plotly")):
                return json.loads(text)
        return None

    def _decoded(self, name: str) -> bytes | None:
        text = self.extra_properties.get(name)
        return base64.b64decode(text) if text is not None else None


class ExecutionError(Model):
    """How a run failed."""

    name: str
    value: str
    timestamp: int
    traceback: list[str] = Field(default_factory=list)


class ExecutionLogs(Model):
    """What was printed."""

    stdout: list[OutputMessage] = Field(default_factory=list)
    stderr: list[OutputMessage] = Field(default_factory=list)

    def add_stdout(self, message: OutputMessage) -> None:
        self.stdout.append(message)

    def add_stderr(self, message: OutputMessage) -> None:
        self.stderr.append(message)


class ExecutionComplete(Model):
    """The end of a run that did not fail, or of a cell."""

    timestamp: int
    execution_time_in_millis: int


class ExecutionInit(Model):
    """The beginning of a run."""

    id: str
    timestamp: int


class ExecutionEvent(Model):
    """One event of a stream, as iterators give them."""

    type: str
    text: str | None = None
    timestamp: int = 0
    execution_count: int | None = None
    execution_time: int | None = None
    results: dict[str, str] | None = None
    error: ExecutionError | None = None
    continues: bool = False


class Execution(Model):
    """A run and what came of it."""

    id: str | None = None
    execution_count: int | None = None
    result: list[ExecutionResult] = Field(default_factory=list)
    error: ExecutionError | None = None
    complete: ExecutionComplete | None = None
    exit_code: int | None = None
    logs: ExecutionLogs = Field(default_factory=ExecutionLogs)

    def add_result(self, result: ExecutionResult) -> None:
        self.result.append(result)

    @property
    def text(self) -> str:
        """Lines of standard output, then the texts of results."""
        parts = [message.text.rstrip("\n") for message in self.logs.stdout]
        parts += [result.text.rstrip("\n") for result in self.result if result.text]
        return "\n".join(parts).rstrip("\n")

    def __str__(self) -> str:
        parts = [self.text] if self.text else []
        if self.logs.stderr:
            lines = "\n".join(message.text.rstrip("\n") for message in self.logs.stderr)
            parts.append(f"[stderr]\n{lines}")
        if self.error:
            parts.append(f"[error] {self.error.name}: {self.error.value}")
        return "\n".join(parts)


class ExecutionHandlers(Model):
    """Coroutines that are told of events as they come."""

    on_stdout: AsyncOutputHandler | None = None
    on_stderr: AsyncOutputHandler | None = None
    on_result: AsyncOutputHandler | None = None
    on_execution_complete: AsyncOutputHandler | None = None
    on_error: AsyncOutputHandler | None = None
    on_init: AsyncOutputHandler | None = None
    skip_accumulation: bool = False


class RunCommandOpts(Model):
    """How a command runs. `stdin` is all its input; with `stdin_open` the input goes on with
    `commands.write_stdin`."""

    background: bool = False
    working_directory: str | None = None
    timeout: timedelta | None = None
    uid: int | None = Field(default=None, ge=0)
    gid: int | None = Field(default=None, ge=0)
    envs: dict[str, str] | None = None
    stdin: str | None = None
    stdin_open: bool = False

    @model_validator(mode="after")
    def _gid_needs_uid(self) -> RunCommandOpts:
        if self.gid is not None and self.uid is None:
            raise ValueError("gid needs a uid")
        return self


class CommandStatus(Model):
    """Whether a command runs, and how it ended."""

    id: str | None = None
    content: str | None = None
    running: bool | None = None
    exit_code: int | None = None
    error: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None


class CommandLogs(Model):
    """A piece of a command's output, and where the next one begins."""

    content: str
    cursor: int | None = None
