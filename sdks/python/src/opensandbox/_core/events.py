"""Streams of events: bytes to events, events to an Execution."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import from_json

from opensandbox._core.wire import CodeEvent
from opensandbox.exceptions import SandboxStreamException
from opensandbox.models.execd import (
    Execution,
    ExecutionComplete,
    ExecutionError,
    ExecutionEvent,
    ExecutionInit,
    ExecutionResult,
    OutputMessage,
)

EVENT_BYTES_MAX = 64 << 20
_FIELDS = (b"event:", b"id:", b"retry:", b":")


class EventReader:
    """Cuts a stream into events. Each is JSON on a line of its own, with or without `data:`."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """The events that are complete with this piece."""
        lines = data.split(b"\n")
        if len(lines) == 1:
            self._rest += data
            if len(self._rest) > EVENT_BYTES_MAX:
                raise SandboxStreamException(f"an event has more than {EVENT_BYTES_MAX} bytes")
            return []
        lines[0] = self._rest + lines[0]
        self._rest = lines.pop()
        events = [self._event(line) for line in lines if line]
        return [event for event in events if event is not None]

    def end(self) -> list[dict[str, Any]]:
        """The event that was not followed by a line end, if it is one."""
        rest, self._rest = self._rest, b""
        if not rest.strip():
            return []
        try:
            event = self._event(rest)
        except SandboxStreamException:
            return []  # half an event: the stream was cut
        return [] if event is None else [event]

    @staticmethod
    def _event(line: bytes) -> dict[str, Any] | None:
        if not line.startswith(b"{"):
            line = line.strip()
            if line.startswith(b"data:"):
                line = line[5:].strip()
            if not line or line.startswith(_FIELDS):
                return None
        try:
            value = from_json(line)
        except ValueError:
            value = _second_opinion(line)
        return value if isinstance(value, dict) else None


def _second_opinion(line: bytes) -> Any:
    """Python's own parser takes a little more, such as half a surrogate pair."""
    try:
        return json.loads(line)
    except ValueError as error:
        raise SandboxStreamException(f"an event is not JSON: {line[:200]!r}", error) from error


def output_message(text: str, timestamp: int, is_error: bool, continues: bool) -> OutputMessage:
    """An OutputMessage without the validation, which is most of the time of a stream: the values
    come from JSON and have these types."""
    message = _new(OutputMessage)
    _set(message, "__dict__", {
        "text": text, "timestamp": timestamp, "is_error": is_error, "continues": continues,
    })  # fmt: skip
    _set(message, "__pydantic_fields_set__", _OUTPUT_FIELDS)
    _set(message, "__pydantic_extra__", None)
    _set(message, "__pydantic_private__", None)
    return message


_new, _set = OutputMessage.__new__, object.__setattr__
_OUTPUT_FIELDS = {"text", "timestamp", "is_error", "continues"}


def normal(event: dict[str, Any]) -> dict[str, Any]:
    """An event, or a bare {code, message} as the error event that it stands for."""
    if "type" not in event and "code" in event:
        error = {"ename": str(event["code"]), "evalue": str(event.get("message", ""))}
        return {"type": "error", "timestamp": 0, "error": {**error, "traceback": []}}
    return event


def error_of(event: dict[str, Any]) -> ExecutionError:
    error = event.get("error") or {}
    return ExecutionError(
        name=str(error.get("ename") or ""),
        value=str(error.get("evalue") or ""),
        traceback=[str(line) for line in error.get("traceback") or []],
        timestamp=event.get("timestamp") or 0,
    )


def public_event(event: dict[str, Any]) -> ExecutionEvent:
    """An event as iterators give it."""
    is_error = event.get("type") == "error"
    return ExecutionEvent(
        type=str(event.get("type") or ""),
        text=event.get("text"),
        timestamp=event.get("timestamp") or 0,
        execution_count=event.get("execution_count"),
        execution_time=event.get("execution_time"),
        results=event.get("results"),
        error=error_of(event) if is_error else None,
        continues=bool(event.get("continues")),
    )


class Progress:
    """What a stream of a command has told so far; from where its logs go on."""

    def __init__(self) -> None:
        self.id: str | None = None
        self.started_ms = 0
        self.bytes = {"stdout": 0, "stderr": 0}
        self.countable = True
        self.ended = False

    def take(self, event: dict[str, Any]) -> None:
        kind = event.get("type")
        if kind == "stdout" or kind == "stderr":
            text = event.get("text") or ""
            size = len(text)
            if not text.isascii():
                size = len(text.encode("utf-8", "surrogatepass"))
                if "\ufffd" in text:
                    self.countable = False  # bytes that are no UTF-8 were replaced
            self.bytes[kind] += size + (text != "\n") - ("continues" in event)
        elif kind == "init":
            self.id, self.started_ms = event.get("text"), event.get("timestamp") or 0
        elif kind == "execution_complete" or kind == "error":
            self.ended = True


class ExecutionBuilder:
    """Makes an Execution of events. `take` also gives the handler to call, and its argument."""

    def __init__(self, handlers: Any, has_exit_code: bool) -> None:
        self.execution = Execution()
        self.handlers = handlers
        self.has_exit_code = has_exit_code
        self.keep = not (handlers is not None and handlers.skip_accumulation)
        self.ended = False
        self.logs = self.execution.logs

    def take(self, event: dict[str, Any]) -> tuple[Any, Any]:
        kind = event.get("type")
        if kind == "stdout":
            return self._output(event, False)
        if kind == "stderr":
            return self._output(event, True)
        take = _TAKERS.get(str(kind))
        return take(self, event) if take else (None, None)

    def _output(self, event: dict[str, Any], is_error: bool) -> tuple[Any, Any]:
        text = event.get("text")
        message = output_message(
            text if isinstance(text, str) else "",
            event.get("timestamp") or 0,
            is_error,
            "continues" in event and bool(event["continues"]),
        )
        if self.keep:
            (self.logs.stderr if is_error else self.logs.stdout).append(message)
        if self.handlers is None:
            return None, None
        return (self.handlers.on_stderr if is_error else self.handlers.on_stdout), message

    def _handler(self, name: str) -> Any:
        return getattr(self.handlers, name) if self.handlers is not None else None

    def _init(self, event: dict[str, Any]) -> tuple[Any, Any]:
        self.execution.id = str(event.get("text") or "")
        init = ExecutionInit(id=self.execution.id, timestamp=event.get("timestamp") or 0)
        return self._handler("on_init"), init

    def _result(self, event: CodeEvent | dict[str, Any]) -> tuple[Any, Any]:
        results = {str(k): _text(v) for k, v in (event.get("results") or {}).items()}
        result = ExecutionResult(
            text=results.get("text", results.get("text/plain")),
            timestamp=event.get("timestamp") or 0,
            extra_properties=results,
            is_display="display" in event,
        )
        self.execution.result.append(result)
        return self._handler("on_result"), result

    def _count(self, event: dict[str, Any]) -> tuple[Any, Any]:
        self.execution.execution_count = event.get("execution_count")
        return None, None

    def _complete(self, event: dict[str, Any]) -> tuple[Any, Any]:
        self.ended = True
        self.execution.complete = ExecutionComplete(
            timestamp=event.get("timestamp") or 0,
            execution_time_in_millis=event.get("execution_time") or 0,
        )
        if self.has_exit_code and self.execution.error is None:
            self.execution.exit_code = 0
        return self._handler("on_execution_complete"), self.execution.complete

    def _error(self, event: dict[str, Any]) -> tuple[Any, Any]:
        self.ended = True
        error = error_of(event)
        self.execution.error = error
        if self.has_exit_code:
            try:
                self.execution.exit_code = int(error.value)
            except ValueError:
                self.execution.exit_code = None
        return self._handler("on_error"), error


_TAKERS: dict[str, Any] = {
    "init": ExecutionBuilder._init,
    "result": ExecutionBuilder._result,
    "execution_count": ExecutionBuilder._count,
    "execution_complete": ExecutionBuilder._complete,
    "error": ExecutionBuilder._error,
}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def ended_without_last_event(what: str, cause: BaseException | None = None) -> Exception:
    return SandboxStreamException(f"{what}: the stream ended without its last event", cause)
