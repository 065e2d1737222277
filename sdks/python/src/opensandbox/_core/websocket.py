"""Frames of WebSocket (RFC 6455), the client's side."""

from __future__ import annotations

import base64
import hashlib
import os
import struct

FRAME_BYTES_MAX = 4 << 20
TEXT, BINARY, CLOSE, PING, PONG = 0x1, 0x2, 0x8, 0x9, 0xA
_MAGIC = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def new_key() -> str:
    return base64.b64encode(os.urandom(16)).decode()


def accept_of(key: str) -> str:
    return base64.b64encode(hashlib.sha1((key + _MAGIC).encode()).digest()).decode()


def frame(opcode: int, data: bytes) -> bytes:
    """A whole frame, masked as clients must."""
    head = bytes([0x80 | opcode])
    size = len(data)
    if size < 126:
        head += bytes([0x80 | size])
    elif size < 1 << 16:
        head += bytes([0x80 | 126]) + struct.pack(">H", size)
    else:
        head += bytes([0x80 | 127]) + struct.pack(">Q", size)
    mask = os.urandom(4)
    repeated = (mask * (size // 4 + 1))[:size]
    masked = int.from_bytes(data, "big") ^ int.from_bytes(repeated, "big")
    return head + mask + masked.to_bytes(size, "big")
