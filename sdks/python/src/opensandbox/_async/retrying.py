"""A transport that repeats requests, for httpx clients of the user's own."""

from __future__ import annotations

import random
import time
from datetime import timedelta

import httpx

from opensandbox._async import io
from opensandbox._core.errors import retry_after_seconds
from opensandbox._core.failures import cause_of, is_pre_send
from opensandbox.transport.retry import (
    RetryCause,
    RetryEvent,
    RetryPolicy,
    announce,
    is_idempotent_method,
)


class RetryAsyncTransport(httpx.AsyncBaseTransport):
    """Sends requests through `inner` and repeats them as a RetryPolicy says. A request whose body
    cannot be sent twice is sent once. As `transport` of a ConnectionConfig it stands for `inner`
    and its policy; streams are then repeated by the SDK's own rules."""

    def __init__(
        self,
        inner: httpx.AsyncBaseTransport,
        policy: RetryPolicy,
        *,
        owns_inner: bool = False,
        rng: random.Random | None = None,
    ) -> None:
        self._inner, self._policy, self._owns_inner = inner, policy, owns_inner
        self._rng = rng

    @property
    def inner(self) -> httpx.AsyncBaseTransport:
        return self._inner

    @property
    def policy(self) -> RetryPolicy:
        return self._policy

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        policy, begin = self._policy, time.monotonic()
        given = dict(request.extensions.get("timeout") or {})
        pause, retries = policy.initial_backoff.total_seconds(), 0
        # Only a body that is there as bytes can be sent again.
        left = policy.max_retries if isinstance(request.stream, httpx.ByteStream) else 0
        while True:
            self._limit(request, given, begin)
            response: httpx.Response | None = None
            failure: httpx.TransportError | None = None
            asked: float | None = None
            try:
                response = await self._inner.handle_async_request(request)
                cause = RetryCause.for_status(response.status_code)
                again = response.status_code in policy.retryable_statuses_for(request.method)
                asked = retry_after_seconds({k.lower(): v for k, v in response.headers.items()})
            except httpx.TransportError as error:
                failure, cause = error, cause_of(error)
                again = is_pre_send(error) or is_idempotent_method(request.method)
            pause = policy.pause_seconds(retries, pause, asked, self._rng)
            if again and retries < left and self._has_time(begin, pause):
                self._tell(request, retries, cause, response, failure, pause)
                if response is not None:
                    await response.aclose()
                retries += 1
                await io.sleep(pause)
                continue
            if response is None:
                assert failure is not None
                raise failure
            return response

    def _has_time(self, begin: float, pause: float) -> bool:
        deadline = self._policy.overall_deadline
        return deadline is None or time.monotonic() + pause - begin < deadline.total_seconds()

    def _limit(self, request: httpx.Request, given: dict[str, float | None], begin: float) -> None:
        """Cuts the timeouts of one attempt down to the policy's."""
        limits = []
        if self._policy.per_attempt_timeout is not None:
            limits.append(self._policy.per_attempt_timeout.total_seconds())
        if self._policy.overall_deadline is not None:
            left = self._policy.overall_deadline.total_seconds() - (time.monotonic() - begin)
            limits.append(max(left, 0.001))
        if limits:
            request.extensions["timeout"] = {
                phase: min(limits if given.get(phase) is None else [*limits, given[phase] or 0.0])
                for phase in ("connect", "read", "write", "pool")
            }

    def _tell(
        self,
        request: httpx.Request,
        retries: int,
        cause: RetryCause,
        response: httpx.Response | None,
        failure: httpx.TransportError | None,
        pause: float,
    ) -> None:
        announce(
            self._policy,
            RetryEvent(
                attempt=retries + 2,
                retries_used=retries,
                method=request.method,
                url=str(request.url),
                cause=cause,
                status_code=None if response is None else response.status_code,
                backoff=timedelta(seconds=pause),
                request_id=None if response is None else response.headers.get("x-request-id"),
                exception=failure,
            ),
        )

    async def aclose(self) -> None:
        """Closes `inner` if it is owned."""
        if self._owns_inner:
            await self._inner.aclose()
