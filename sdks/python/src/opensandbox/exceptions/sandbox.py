"""Exceptions, each with an error code in `error`."""

from __future__ import annotations

from datetime import timedelta


class SandboxError:
    """A code for programs and a message for people."""

    INTERNAL_UNKNOWN_ERROR = "INTERNAL_UNKNOWN_ERROR"
    READY_TIMEOUT = "READY_TIMEOUT"
    UNHEALTHY = "UNHEALTHY"
    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    UNEXPECTED_RESPONSE = "UNEXPECTED_RESPONSE"
    STREAM_ENDED = "STREAM_ENDED"
    TIMEOUT = "TIMEOUT"
    CONNECTION = "CONNECTION"
    RATE_LIMIT = "RATE_LIMIT"
    POOL_EMPTY = "POOL_EMPTY"
    POOL_ACQUIRE_FAILED = "POOL_ACQUIRE_FAILED"
    POOL_STATE_STORE_UNAVAILABLE = "POOL_STATE_STORE_UNAVAILABLE"
    POOL_STATE_STORE_CONTENTION = "POOL_STATE_STORE_CONTENTION"
    POOL_NOT_RUNNING = "POOL_NOT_RUNNING"
    POOL_DESTROYED = "POOL_DESTROYED"
    POOL_DESTROY_INCOMPLETE = "POOL_DESTROY_INCOMPLETE"

    def __init__(self, code: str, message: str | None = None) -> None:
        self.code = code
        self.message = message

    def __repr__(self) -> str:
        return f"SandboxError(code={self.code!r}, message={self.message!r})"


class SandboxException(Exception):
    """The base of all. `is_retryable` says whether the same call may succeed later."""

    def __init__(
        self,
        message: str | None = None,
        cause: BaseException | None = None,
        error: SandboxError | None = None,
        request_id: str | None = None,
        is_retryable: bool = False,
    ) -> None:
        super().__init__(message)
        self.__cause__ = cause
        self.error = error or SandboxError(SandboxError.INTERNAL_UNKNOWN_ERROR, message)
        self.request_id = request_id
        self.is_retryable = is_retryable

    def __str__(self) -> str:
        text = str(self.args[0]) if self.args and self.args[0] is not None else ""
        detail = self.error.message
        parts = [text] if text else []
        if detail and detail not in text:
            parts.append(f"[{self.error.code}] {detail}")
        elif self.error.code not in text:
            parts.append(f"[{self.error.code}]")
        if self.request_id:
            parts.append(f"request_id={self.request_id}")
        return " | ".join(parts)


class SandboxApiException(SandboxException):
    """The server answered with an error status, or told of an error in a stream."""

    def __init__(
        self,
        message: str | None = None,
        cause: BaseException | None = None,
        status_code: int | None = None,
        error: SandboxError | None = None,
        request_id: str | None = None,
        response_body: bytes | None = None,
        is_retryable: bool = False,
    ) -> None:
        error = error or SandboxError(SandboxError.UNEXPECTED_RESPONSE, message)
        super().__init__(message, cause, error, request_id, is_retryable)
        self.status_code = status_code
        self.response_body = response_body


class SandboxRateLimitException(SandboxApiException):
    """Status 429. `retry_after` is the pause that the server asks for, if it does."""

    def __init__(
        self,
        message: str | None = None,
        cause: BaseException | None = None,
        status_code: int | None = 429,
        error: SandboxError | None = None,
        request_id: str | None = None,
        retry_after: timedelta | None = None,
        response_body: bytes | None = None,
        is_retryable: bool = False,
    ) -> None:
        error = error or SandboxError(SandboxError.RATE_LIMIT, message)
        super().__init__(
            message, cause, status_code, error, request_id, response_body, is_retryable
        )
        self.retry_after = retry_after


class SandboxInternalException(SandboxException):
    """The network failed, or an answer could not be understood."""

    def __init__(
        self,
        message: str | None = None,
        cause: BaseException | None = None,
        error: SandboxError | None = None,
        is_retryable: bool = False,
    ) -> None:
        super().__init__(message, cause, error, None, is_retryable)


class _Coded(SandboxInternalException):
    code = SandboxError.INTERNAL_UNKNOWN_ERROR

    def __init__(
        self,
        message: str | None = None,
        cause: BaseException | None = None,
        is_retryable: bool = False,
    ) -> None:
        super().__init__(message, cause, SandboxError(self.code, message), is_retryable)


class SandboxTimeoutException(_Coded):
    """A request took too long."""

    code = SandboxError.TIMEOUT


class SandboxConnectionException(_Coded):
    """A connection could not be made, or broke."""

    code = SandboxError.CONNECTION


class SandboxStreamException(_Coded):
    """A stream ended without its last event, and the server cannot tell the rest."""

    code = SandboxError.STREAM_ENDED


class _Simple(SandboxException):
    code = SandboxError.INTERNAL_UNKNOWN_ERROR
    text: str | None = None

    def __init__(self, message: str | None = None, cause: BaseException | None = None) -> None:
        message = message if message is not None else self.text
        super().__init__(message, cause, SandboxError(self.code, message))


class SandboxUnhealthyException(_Simple):
    """A sandbox or a snapshot failed; the message has the reason."""

    code = SandboxError.UNHEALTHY


class SandboxReadyTimeoutException(_Simple):
    """A sandbox was not ready in time."""

    code = SandboxError.READY_TIMEOUT


class InvalidArgumentException(_Simple):
    """An argument was refused before anything was sent."""

    code = SandboxError.INVALID_ARGUMENT


class PoolEmptyException(_Simple):
    """FAIL_FAST found no idle sandbox."""

    code = SandboxError.POOL_EMPTY
    text = "the pool has no idle sandbox, and the policy is not to create one"


class PoolAcquireFailedException(_Simple):
    """FAIL_FAST found an idle sandbox that cannot be used."""

    code = SandboxError.POOL_ACQUIRE_FAILED
    text = "the idle sandbox of the pool cannot be used"


class PoolStateStoreUnavailableException(_Simple):
    """The store of a pool does not answer."""

    code = SandboxError.POOL_STATE_STORE_UNAVAILABLE


class PoolStateStoreContentionException(_Simple):
    """Others changed the store of a pool at the same time."""

    code = SandboxError.POOL_STATE_STORE_CONTENTION


class PoolNotRunningException(_Simple):
    """A pool was asked for a sandbox before its start or after its shutdown."""

    code = SandboxError.POOL_NOT_RUNNING
    text = "the pool is not running"


class PoolDestroyedException(_Simple):
    """The pool of this name was destroyed, or is being destroyed."""

    code = SandboxError.POOL_DESTROYED
    text = "the pool is destroyed"


class PoolDestroyIncompleteException(_Simple):
    """Destroying a pool began and did not end."""

    code = SandboxError.POOL_DESTROY_INCOMPLETE
    text = "the pool is not destroyed completely"
