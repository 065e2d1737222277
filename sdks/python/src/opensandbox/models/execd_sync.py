"""Handlers of the sync client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from opensandbox.models._base import Model

SyncOutputHandler = Callable[[Any], None]


class ExecutionHandlersSync(Model):
    """Functions that are told of events as they come."""

    on_stdout: SyncOutputHandler | None = None
    on_stderr: SyncOutputHandler | None = None
    on_result: SyncOutputHandler | None = None
    on_execution_complete: SyncOutputHandler | None = None
    on_error: SyncOutputHandler | None = None
    on_init: SyncOutputHandler | None = None
    skip_accumulation: bool = False
