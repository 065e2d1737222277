"""When failed requests are repeated."""

from opensandbox.transport.retry import JitterMode, RetryCause, RetryEvent, RetryPolicy

__all__ = ["JitterMode", "RetryCause", "RetryEvent", "RetryPolicy"]
