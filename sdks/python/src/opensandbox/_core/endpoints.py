"""Endpoints that were looked up, kept for a while."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from datetime import timedelta

from opensandbox.models.sandboxes import SandboxEndpoint

SIZE_DEFAULT = 1024


class EndpointCache:
    """The endpoints used last, each until its time is over."""

    def __init__(self, ttl: timedelta, size: int, disabled: bool) -> None:
        self._seconds = 0.0 if disabled else ttl.total_seconds()
        self._size = size if size > 0 else SIZE_DEFAULT
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[str, int, bool], tuple[float, SandboxEndpoint]]
        self._kept = OrderedDict()

    def get(self, sandbox_id: str, port: int, proxy: bool) -> SandboxEndpoint | None:
        """A copy of what was kept."""
        key = (sandbox_id, port, proxy)
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            if found[0] <= time.monotonic():
                del self._kept[key]
                return None
            self._kept.move_to_end(key)
            return found[1].model_copy(deep=True)

    def put(self, sandbox_id: str, port: int, proxy: bool, endpoint: SandboxEndpoint) -> None:
        if self._seconds <= 0:
            return
        key = (sandbox_id, port, proxy)
        with self._lock:
            end = time.monotonic() + self._seconds
            self._kept[key] = (end, endpoint.model_copy(deep=True))
            self._kept.move_to_end(key)
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)

    def forget(self, sandbox_id: str) -> None:
        with self._lock:
            for key in [key for key in self._kept if key[0] == sandbox_id]:
                del self._kept[key]
