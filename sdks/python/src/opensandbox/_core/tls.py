"""The TLS context of the process, made when the first https address is used."""

from __future__ import annotations

import os
import socket
import ssl
import threading

_lock = threading.Lock()
_contexts: dict[str, ssl.SSLContext] = {}

SOCKET_OPTIONS: list[tuple[int, int, int]] = [
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
]
for _name, _value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
    if hasattr(socket, _name):  # a peer that is gone is noticed within a minute
        SOCKET_OPTIONS.append((socket.IPPROTO_TCP, getattr(socket, _name), _value))


def no_authorities() -> ssl.SSLContext:
    """For connections that are plain; https with it fails, as nobody is trusted."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def context() -> ssl.SSLContext:
    """Trusts SSL_CERT_FILE and SSL_CERT_DIR where they are set, else the authorities of certifi."""
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    key = f"{file}:{folder}"
    with _lock:
        if key not in _contexts:
            if file or folder:
                _contexts[key] = ssl.create_default_context(cafile=file, capath=folder)
            else:
                import certifi

                _contexts[key] = ssl.create_default_context(cafile=certifi.where())
        return _contexts[key]
