"""Turns answers into exceptions."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import Any

from opensandbox.exceptions import (
    InvalidArgumentException,
    SandboxApiException,
    SandboxError,
    SandboxRateLimitException,
)

RETRYABLE = frozenset({429, 502, 503})
MESSAGE_CHARACTERS_MAX = 2000


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """What a server asks for by Retry-After: seconds, or a date."""
    value = headers.get("retry-after", "").strip()
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        when = parsedate_to_datetime(value)
    except (TypeError, ValueError):
        return None
    return max(0.0, (when - datetime.now(timezone.utc)).total_seconds())


def _code_and_message(body: bytes) -> tuple[str | None, str]:
    """What an error body says, also inside a `detail`."""
    text = body.decode("utf-8", "replace")[:MESSAGE_CHARACTERS_MAX]
    try:
        value: Any = json.loads(body)
    except ValueError:
        return None, text.strip()
    if isinstance(value, dict) and "code" not in value and "detail" in value:
        value = value["detail"]
    if not isinstance(value, dict):
        return None, value if isinstance(value, str) else text
    code, message = value.get("code"), value.get("message")
    return (
        str(code) if code is not None else None,
        message if isinstance(message, str) else text,
    )


def api_error(
    status: int, headers: Mapping[str, str], body: bytes, what: str
) -> SandboxApiException:
    """The exception for an answer with an error status. `headers` has lower-case names."""
    code, message = _code_and_message(body)
    message = message or "the answer has no body"
    text = f"{what}: status {status}: {message}"
    error = SandboxError(code or SandboxError.UNEXPECTED_RESPONSE, message)
    request_id = headers.get("x-request-id")
    if status == 429:
        seconds = retry_after_seconds(headers)
        return SandboxRateLimitException(
            text,
            status_code=status,
            error=error,
            request_id=request_id,
            retry_after=None if seconds is None else timedelta(seconds=seconds),
            response_body=body,
            is_retryable=True,
        )
    return SandboxApiException(
        text,
        status_code=status,
        error=error,
        request_id=request_id,
        response_body=body,
        is_retryable=status in RETRYABLE,
    )


def need_key(value: str) -> str:
    """Refuses what cannot be an idempotency key: it goes into a header."""
    if not re.fullmatch("[!-~]([ -~]{0,253}[!-~])?", value):
        raise InvalidArgumentException(
            "idempotency_key must be 1 to 255 printable ASCII characters, without spaces around"
        )
    return value


def need_text(value: str | None, what: str) -> str:
    """Refuses blank arguments."""
    if value is None or not str(value).strip():
        raise InvalidArgumentException(f"{what} must not be blank")
    return value
