"""When failed requests are repeated; transports that repeat those of your own httpx clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from opensandbox.transport.retry import JitterMode, RetryCause, RetryEvent, RetryPolicy

if TYPE_CHECKING:
    from opensandbox._async.retrying import RetryAsyncTransport
    from opensandbox._sync.retrying import RetrySyncTransport

_T = TypeVar("_T")
_WRAPPERS = {"RetryAsyncTransport": "_async", "RetrySyncTransport": "_sync"}


def __getattr__(name: str) -> Any:
    """The wrappers need httpx, which is loaded by the first use only."""
    if name not in _WRAPPERS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    module = importlib.import_module(f"opensandbox.{_WRAPPERS[name]}.retrying")
    return getattr(module, name)


def unwrap_retry_transport(transport: _T) -> _T:
    """The transport inside a wrapper; any other as it is."""
    if type(transport).__name__ in _WRAPPERS:
        inner: _T = getattr(transport, "inner", transport)
        return inner
    return transport


__all__ = [
    "JitterMode",
    "RetryAsyncTransport",
    "RetryCause",
    "RetryEvent",
    "RetryPolicy",
    "RetrySyncTransport",
    "unwrap_retry_transport",
]
