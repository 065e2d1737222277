"""RetryPolicy: which requests are repeated, how often, and after which pause."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from http import HTTPStatus

logger = logging.getLogger("opensandbox")

_IDEMPOTENT_METHODS = frozenset({"GET", "HEAD", "PUT", "DELETE", "OPTIONS"})


def is_idempotent_method(method: str) -> bool:
    """Whether sending such a request twice is as good as once."""
    return method.upper() in _IDEMPOTENT_METHODS


class JitterMode(str, Enum):
    """How pauses vary, so that clients do not come back all at once."""

    NONE = "none"
    FULL = "full"
    DECORRELATED = "decorrelated"


class RetryCause(str, Enum):
    """Why a request is repeated."""

    PRE_SEND = "pre_send"
    OPAQUE_TRANSPORT = "opaque_transport"
    READ_TIMEOUT = "read_timeout"
    WRITE_TIMEOUT = "write_timeout"
    UNEXPECTED_EOF = "unexpected_eof"
    STATUS_408 = "status_408"
    STATUS_425 = "status_425"
    STATUS_429 = "status_429"
    STATUS_500 = "status_500"
    STATUS_502 = "status_502"
    STATUS_503 = "status_503"
    STATUS_504 = "status_504"
    STATUS_OTHER = "status_other"

    @classmethod
    def for_status(cls, status_code: int) -> RetryCause:
        name = f"STATUS_{status_code}"
        return cls[name] if name in cls.__members__ else cls.STATUS_OTHER


@dataclass(frozen=True)
class RetryEvent:
    """What `on_retry` is told before each pause: `attempt` is the number of the one to come, from
    2 on; `retries_used` counts those that were repetitions."""

    attempt: int
    retries_used: int
    method: str
    url: str
    cause: RetryCause
    status_code: int | None
    backoff: timedelta
    request_id: str | None
    exception: BaseException | None


@dataclass(frozen=True)
class RetryPolicy:
    """Requests that failed are repeated when that is safe: idempotent ones after certain statuses
    or a broken connection, others only when no connection could be made."""

    max_retries: int = 3
    initial_backoff: timedelta = timedelta(milliseconds=500)
    max_backoff: timedelta = timedelta(seconds=30)
    backoff_multiplier: float = 2.0
    jitter: JitterMode = JitterMode.DECORRELATED
    retryable_status_codes_idempotent: frozenset[HTTPStatus] = frozenset(
        {
            HTTPStatus.TOO_MANY_REQUESTS,
            HTTPStatus.BAD_GATEWAY,
            HTTPStatus.SERVICE_UNAVAILABLE,
        }
    )
    retryable_status_codes_non_idempotent: frozenset[HTTPStatus] = field(default_factory=frozenset)
    per_attempt_timeout: timedelta | None = None
    overall_deadline: timedelta | None = None
    on_retry: Callable[[RetryEvent], None] | None = None

    @classmethod
    def disabled(cls) -> RetryPolicy:
        """Nothing is repeated."""
        return cls(max_retries=0)

    def wraps_transport(self) -> bool:
        return self.max_retries > 0 or self.overall_deadline is not None

    def retryable_statuses_for(self, method: str) -> frozenset[HTTPStatus]:
        if is_idempotent_method(method):
            return self.retryable_status_codes_idempotent
        return self.retryable_status_codes_non_idempotent

    def pause_seconds(
        self,
        retries_used: int,
        last: float,
        asked: float | None,
        rng: random.Random | None = None,
    ) -> float:
        """The pause before the next attempt; `asked` is what the server asked for."""
        draw = random.uniform if rng is None else rng.uniform
        first, most = self.initial_backoff.total_seconds(), self.max_backoff.total_seconds()
        plain = min(first * self.backoff_multiplier**retries_used, most)
        if self.jitter is JitterMode.FULL:
            pause = draw(0, plain)
        elif self.jitter is JitterMode.DECORRELATED:
            pause = draw(first, max(first, min(last * 3, most)))
        else:
            pause = plain
        return max(min(pause, most), min(asked or 0.0, most))


def announce(policy: RetryPolicy, event: RetryEvent) -> None:
    """Tells of a repetition. What `on_retry` raises is logged, and the request goes on."""
    pause, failure = event.backoff.total_seconds(), event.exception or event.status_code
    logger.debug("%s %s again in %.3f s: %s", event.method, event.url, pause, failure)
    if policy.on_retry is not None:
        try:
            policy.on_retry(event)
        except Exception:
            logger.exception("on_retry failed")
