"""The connection pool of the sync client."""

from __future__ import annotations

import threading
from typing import Any

import httpx

from opensandbox._core import tls


class Transport(httpx.BaseTransport):
    """One connection pool. TLS is set up by the first https request, not before."""

    def __init__(self, limits: httpx.Limits) -> None:
        self._limits = limits
        self._plain: httpx.HTTPTransport | None = None
        self._secure: httpx.HTTPTransport | None = None
        self._lock = threading.Lock()

    def _pool(self, scheme: str) -> httpx.HTTPTransport:
        with self._lock:
            if scheme == "https":
                if self._secure is None:
                    self._secure = self._new(tls.context())
                return self._secure
            if self._plain is None:
                self._plain = self._new(tls.no_authorities())
            return self._plain

    def _new(self, context: Any) -> httpx.HTTPTransport:
        return httpx.HTTPTransport(
            verify=context, limits=self._limits, socket_options=tls.SOCKET_OPTIONS
        )

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return self._pool(request.url.scheme).handle_request(request)

    def close(self) -> None:
        for pool in (self._plain, self._secure):
            if pool is not None:
                pool.close()


def new_transport(connections: int | None, kept: int, expiry: float) -> Transport:
    return Transport(
        httpx.Limits(
            max_connections=connections, max_keepalive_connections=kept, keepalive_expiry=expiry
        )
    )
