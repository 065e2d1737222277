"""What failures of httpx mean for another attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opensandbox._core.lazy import LazyModule
from opensandbox.transport.retry import RetryCause

if TYPE_CHECKING:
    import httpx
else:
    httpx = LazyModule("httpx")


def is_pre_send(error: Exception) -> bool:
    """Whether no byte of the request was sent."""
    return isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout))


def cause_of(error: Exception) -> RetryCause:
    if is_pre_send(error):
        return RetryCause.PRE_SEND
    if isinstance(error, httpx.WriteTimeout):
        return RetryCause.WRITE_TIMEOUT
    if isinstance(error, httpx.TimeoutException):
        return RetryCause.READ_TIMEOUT
    if isinstance(error, httpx.RemoteProtocolError):
        return RetryCause.UNEXPECTED_EOF
    return RetryCause.OPAQUE_TRANSPORT
