# Written by tools/unasync from _async/pty.py. DO NOT EDIT.
"""Terminals: a shell whose input and output are a stream of bytes."""

from __future__ import annotations

import json
import struct
from typing import Any

from opensandbox._sync.http import Http
from opensandbox._sync.io import Connection, Lock, Stream
from opensandbox._sync.lifecycle import parsed
from opensandbox._core import websocket
from opensandbox._core.convert import dense, segment
from opensandbox._core.errors import api_error, need_text
from opensandbox._core.events import ended_without_last_event
from opensandbox.exceptions import (
    SandboxApiException,
    SandboxConnectionException,
    SandboxError,
    SandboxInternalException,
)
from opensandbox.models.images import PtyInfo

HEAD_LINES_MAX = 200
SILENCE_SECONDS_MAX = 90.0  # the server pings every 30 s
INPUT_BYTES_MAX = 32 << 10
RECONNECTS_MAX = 5
STDOUT, STDERR, REPLAY = 1, 2, 3


class PtySync:
    """A terminal session. Iterating gives output; a connection that breaks is made again, and
    goes on with the next byte."""

    def __init__(self, http: Http, session_id: str, offset: int = 0) -> None:
        self._http = http
        self.session_id = session_id
        self.offset = offset
        self.exit_code: int | None = None
        self._connection: Connection | None = None
        self._lock = Lock()
        self._closed = False

    # --- its life ---

    @classmethod
    def create(
        cls, http: Http, command: str | None = None, working_directory: str | None = None
    ) -> PtySync:
        """A new session; with a command, it runs that instead of an interactive shell."""
        body = dense(command=command, cwd=working_directory)
        info: PtyInfo = parsed(PtyInfo, http.json("POST", "/pty", body=body))
        pty = cls(http, info.session_id)
        pty.connect()
        return pty

    def connect(self, takeover: bool = False) -> None:
        """Connects to the session, from byte `offset` of its output on."""
        url = self._http.url(f"/pty/{segment(self.session_id)}/ws", {
            "since": self.offset, "takeover": "1" if takeover else None,
        })  # fmt: skip
        secure = url.scheme == "https"
        seconds = self._http.link.config.request_timeout.total_seconds()
        try:
            connection = Connection.open(
                url.host, url.port or (443 if secure else 80), secure, seconds
            )
        except OSError as error:
            raise SandboxConnectionException(f"terminal {self.session_id}", error) from error
        key = websocket.new_key()
        lines = [f"GET {url.raw_path.decode()} HTTP/1.1", f"Host: {url.netloc.decode()}"]
        lines += [f"{name}: {value}" for name, value in self._http.headers.items()]
        lines += ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"]
        lines += [f"Sec-WebSocket-Key: {key}", "", ""]
        try:
            connection.write("\r\n".join(lines).encode("latin-1"))
            self._check_answer(connection, key, seconds)
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    def _check_answer(self, connection: Connection, key: str, seconds: float) -> None:
        status = (connection.read_line(seconds)).decode("latin-1").split(" ", 2)
        headers: dict[str, str] = {}
        for _ in range(HEAD_LINES_MAX):
            line = (connection.read_line(seconds)).decode("latin-1").strip()
            if not line:
                break
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        code = int(status[1]) if len(status) > 1 and status[1].isdigit() else 0
        if code != 101:
            length = min(int(headers.get("content-length") or 0), 1 << 16)
            body = connection.read_exactly(length, seconds) if length else b""
            raise api_error(code, headers, body, f"terminal {self.session_id}")
        if headers.get("sec-websocket-accept") != websocket.accept_of(key):
            raise SandboxInternalException("the server does not speak WebSocket")

    def info(self) -> PtyInfo:
        """Whether the shell runs, and how much it printed."""
        answer = self._http.json("GET", f"/pty/{segment(self.session_id)}")
        found: PtyInfo = parsed(PtyInfo, answer)
        return found

    def close(self) -> None:
        """Leaves the session, which goes on without us."""
        self._closed = True
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def kill(self) -> None:
        """Ends the session."""
        self.close()
        self._http.send("DELETE", f"/pty/{segment(self.session_id)}")

    def __enter__(self) -> PtySync:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- input ---

    def write(self, data: str | bytes) -> None:
        """Types."""
        data = data.encode() if isinstance(data, str) else data
        for begin in range(0, len(data), INPUT_BYTES_MAX):
            piece = b"\0" + data[begin : begin + INPUT_BYTES_MAX]
            self._send(websocket.BINARY, piece)

    def resize(self, columns: int, rows: int) -> None:
        self._tell({"type": "resize", "cols": columns, "rows": rows})

    def signal(self, name: str) -> None:
        """Sends a signal, as "SIGINT", to the job in the foreground."""
        self._tell({"type": "signal", "signal": need_text(name, "name")})

    def _tell(self, message: dict[str, Any]) -> None:
        self._send(websocket.TEXT, json.dumps(message).encode())

    def _send(self, opcode: int, data: bytes) -> None:
        if self._connection is None:
            raise SandboxConnectionException(f"terminal {self.session_id} is not connected")
        with self._lock:
            try:
                self._connection.write(websocket.frame(opcode, data))
            except OSError as error:
                raise SandboxConnectionException(f"terminal {self.session_id}", error) from error

    # --- output ---

    def output(self) -> Stream[bytes]:
        """What the session prints, until its end; `exit_code` has the result then."""
        failures = 0
        while not self._closed:
            try:
                if self._connection is None:
                    self.connect(takeover=True)
                data = self._next()
            except (EOFError, OSError, SandboxConnectionException) as error:
                if self.exit_code is not None or self._closed:
                    return
                failures += 1
                self._drop()
                if failures > RECONNECTS_MAX:
                    raise ended_without_last_event("terminal", error) from error
                continue
            if data is None:
                return
            if data:
                failures = 0
                yield data

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _next(self) -> bytes | None:
        """The output of the next frame; None at the end."""
        opcode, data = self._read_frame()
        if opcode == websocket.PING:
            self._send(websocket.PONG, data)
        elif opcode == websocket.CLOSE:
            if self.exit_code is not None:
                return None
            code = struct.unpack(">H", data[:2])[0] if len(data) >= 2 else 0
            if code == 4001:
                raise SandboxInternalException("another client took over the terminal")
            raise EOFError("closed")
        elif opcode == websocket.TEXT:
            self._message(json.loads(data))
        elif opcode == websocket.BINARY and data:
            return self._output(data[0], data[1:])
        return b""

    def _output(self, channel: int, data: bytes) -> bytes:
        if channel == REPLAY and len(data) >= 8:
            self.offset, data = struct.unpack(">Q", data[:8])[0], data[8:]
        elif channel not in (STDOUT, STDERR):
            return b""
        self.offset += len(data)
        return data

    def _message(self, message: dict[str, Any]) -> None:
        if message.get("type") == "exit":
            self.exit_code = int(message.get("exit_code", -1))
        elif message.get("type") == "error":
            text = str(message.get("error"))
            error = SandboxError(str(message.get("code")), text)
            raise SandboxApiException(text, status_code=200, error=error)

    def _read_frame(self) -> tuple[int, bytes]:
        if self._connection is None:
            raise EOFError("not connected")
        head = self._connection.read_exactly(2, SILENCE_SECONDS_MAX)
        size = head[1] & 0x7F
        if not head[0] & 0x80 or head[1] & 0x80:
            raise SandboxInternalException("a frame of the terminal is fragmented or masked")
        if size >= 126:
            wide = 2 if size == 126 else 8
            length = self._connection.read_exactly(wide, SILENCE_SECONDS_MAX)
            size = int.from_bytes(length, "big")
        if size > websocket.FRAME_BYTES_MAX:
            raise SandboxInternalException(f"a frame of the terminal has {size} bytes")
        data = self._connection.read_exactly(size, SILENCE_SECONDS_MAX) if size else b""
        return head[0] & 0x0F, data
