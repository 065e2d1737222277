"""The store of an async pool in this process."""

from opensandbox._async.stores import InMemoryAsyncPoolStateStore

__all__ = ["InMemoryAsyncPoolStateStore"]
