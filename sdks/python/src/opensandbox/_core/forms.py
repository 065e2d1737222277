"""multipart/form-data of uploads, piece by piece: nothing is held whole."""

from __future__ import annotations

import io
import json
import os
import uuid
from collections.abc import Iterator
from typing import Any

from opensandbox.exceptions import InvalidArgumentException
from opensandbox.models.filesystem import WriteEntry

PIECE_BYTES = 256 << 10


def new_boundary() -> str:
    return "osb-" + uuid.uuid4().hex


def quoted(name: str) -> str:
    """A file name inside quotes, as HTML forms write it."""
    return name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")


def head_of(entry: WriteEntry, boundary: str, is_first: bool) -> bytes:
    """Everything in front of a file's content."""
    fields = {"path": entry.path, "mode": entry.mode, "owner": entry.owner, "group": entry.group}
    metadata = json.dumps({k: v for k, v in fields.items() if v is not None}, ensure_ascii=False)
    name = quoted(os.path.basename(entry.path) or "file")
    text = (
        f"{'' if is_first else chr(13) + chr(10)}--{boundary}\r\n"
        'Content-Disposition: form-data; name="metadata"; filename="metadata"\r\n'
        "Content-Type: application/json\r\n\r\n"
        f"{metadata}\r\n--{boundary}\r\n"
        f'Content-Disposition: form-data; name="file"; filename="{name}"\r\n'
        "Content-Type: application/octet-stream\r\n\r\n"
    )
    return text.encode()


def tail_of(boundary: str) -> bytes:
    return f"\r\n--{boundary}--\r\n".encode()


def whole(entry: WriteEntry) -> bytes | None:
    """Content that is there already; None when it has to be read."""
    data = entry.data
    if data is None:
        return b""
    if isinstance(data, str):
        return data.encode(entry.encoding)
    if isinstance(data, (bytes, bytearray, memoryview)):
        return bytes(data)
    return None


def pieces(entry: WriteEntry) -> Iterator[bytes]:
    """The content of a file object or an iterator, as bytes."""
    data: Any = entry.data
    if hasattr(data, "read"):
        if isinstance(data, io.TextIOBase):
            while text := data.read(PIECE_BYTES):
                yield text.encode(entry.encoding)
            return
        while chunk := data.read(PIECE_BYTES):
            yield chunk if isinstance(chunk, bytes) else chunk.encode(entry.encoding)
        return
    if not hasattr(data, "__iter__"):
        kind = type(data).__name__
        raise InvalidArgumentException(
            f"data of {entry.path} must be text, bytes, a file or an iterator, not {kind}"
        )
    for chunk in data:
        yield chunk if isinstance(chunk, bytes) else str(chunk).encode(entry.encoding)
