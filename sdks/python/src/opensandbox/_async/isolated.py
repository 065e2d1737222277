"""Isolated sessions: a sandbox inside the sandbox."""

from __future__ import annotations

import builtins
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from opensandbox._async.commands import collect, normalized
from opensandbox._async.files import Filesystem
from opensandbox._async.http import Http
from opensandbox._async.io import Stream
from opensandbox._async.lifecycle import parsed
from opensandbox._core.convert import dense, segment
from opensandbox._core.errors import need_text
from opensandbox.models.execd import ExecutionHandlers
from opensandbox.models.execd import Execution
from opensandbox.models.isolated import (
    BindMount,
    CreateIsolatedSessionRequest,
    IsolatedBackgroundRun,
    IsolatedCapabilities,
    IsolatedRunLogs,
    IsolatedRunOpts,
    IsolatedRunStatus,
    IsolatedSessionInfo,
    IsolatedSessionState,
    IsolatedSessionSummary,
    IsolatedWorkspaceSpec,
)

BASE = "/v1/isolated"


class IsolationSession:
    """One session."""

    def __init__(self, http: Http, info: IsolatedSessionInfo) -> None:
        self._info = info
        self._http = http.below(f"{BASE}/session/{segment(info.session_id)}")
        self._files = Filesystem(self._http)

    @property
    def session_id(self) -> str:
        return self._info.session_id

    @property
    def info(self) -> IsolatedSessionInfo:
        return self._info

    @property
    def files(self) -> Filesystem:
        """Files as the session sees them."""
        return self._files

    async def run(
        self,
        code: str,
        *,
        opts: IsolatedRunOpts | None = None,
        handlers: ExecutionHandlers | None = None,
    ) -> Execution:
        """Runs shell code and waits for its end."""
        batches = normalized(self._http.events("POST", "/run", body=_run_body(code, opts)))
        return await collect(batches, handlers, True, "isolation.run")

    async def run_background(
        self, code: str, *, opts: IsolatedRunOpts | None = None
    ) -> IsolatedBackgroundRun:
        """Starts shell code beside the session's shell."""
        body = {**_run_body(code, opts), "background": True}
        started: IsolatedBackgroundRun = parsed(
            IsolatedBackgroundRun, await self._http.json("POST", "/run", body=body)
        )
        return started

    async def run_status(self, run_id: str) -> IsolatedRunStatus:
        answer = await self._http.json("GET", f"/runs/{segment(need_text(run_id, 'run_id'))}")
        status: IsolatedRunStatus = parsed(IsolatedRunStatus, answer)
        return status

    async def run_logs(self, run_id: str, cursor: int = 0) -> IsolatedRunLogs:
        path = f"/runs/{segment(need_text(run_id, 'run_id'))}/logs"
        response = await self._http.send("GET", path, query={"cursor": cursor})
        tail = response.headers.get("EXECD-ISOLATED-TAIL-CURSOR", "")
        return IsolatedRunLogs(
            text=response.content.decode("utf-8", "replace"),
            cursor=int(tail) if tail.strip().isdigit() else cursor + len(response.content),
        )

    async def get(self) -> IsolatedSessionState:
        """How the session fares."""
        state: IsolatedSessionState = parsed(
            IsolatedSessionState, await self._http.json("GET", "")
        )
        return state

    async def diff(self) -> Stream[bytes]:
        """What the session wrote into its overlay: an archive, tar.gz, piece by piece."""
        async with self._http.stream("GET", "/diff") as response:
            async for data in response.aiter_raw():
                yield data

    async def commit(
        self, strategy: str | None = None, *, reset_upper_after: bool | None = None
    ) -> Any:
        """Writes what the session wrote into the workspace; its overlay is empty afterwards with
        `reset_upper_after`."""
        body = dense(strategy=strategy, reset_upper_after=reset_upper_after)
        return await self._http.json("POST", "/commit", body=body)

    async def delete(self) -> None:
        """Ends the session."""
        await self._http.send("DELETE", "")


class IsolationService:
    """Makes and finds isolated sessions."""

    def __init__(self, http: Http) -> None:
        self._http = http

    async def create(self, request: CreateIsolatedSessionRequest) -> IsolationSession:
        body = request.model_dump(exclude_none=True)
        answer = await self._http.json("POST", f"{BASE}/session", body=body)
        info = {**body, **{k: v for k, v in answer.items() if v is not None}}
        return IsolationSession(self._http, parsed(IsolatedSessionInfo, info))

    async def attach(self, session_id: str) -> IsolationSession:
        """A session that is there already."""
        path = f"{BASE}/session/{segment(need_text(session_id, 'session_id'))}"
        answer = await self._http.json("GET", path)
        info = parsed(IsolatedSessionInfo, {**answer, "session_id": session_id})
        return IsolationSession(self._http, info)

    async def capabilities(self) -> IsolatedCapabilities:
        answer = await self._http.json("GET", f"{BASE}/capabilities")
        found: IsolatedCapabilities = parsed(IsolatedCapabilities, answer)
        return found

    async def list(self) -> builtins.list[IsolatedSessionSummary]:
        answer = await self._http.json("GET", f"{BASE}/sessions")
        rows = answer.get("sessions", [])
        return [parsed(IsolatedSessionSummary, row) for row in rows]

    async def run_once(
        self,
        code: str,
        *,
        workspace: str,
        workspace_mode: str | None = None,
        opts: IsolatedRunOpts | None = None,
        handlers: ExecutionHandlers | None = None,
        profile: str | None = None,
        share_net: bool | None = None,
        binds: builtins.list[BindMount] | None = None,
    ) -> Execution:
        """Runs shell code in a session made for it."""
        request = CreateIsolatedSessionRequest(
            workspace=IsolatedWorkspaceSpec(path=workspace, mode=workspace_mode),
            profile=profile,
            share_net=share_net,
            binds=binds,
        )
        async with self.session(request) as session:
            return await session.run(code, opts=opts, handlers=handlers)

    @asynccontextmanager
    async def session(
        self, request: CreateIsolatedSessionRequest
    ) -> AsyncIterator[IsolationSession]:
        """A session that ends with the block."""
        session = await self.create(request)
        try:
            yield session
        finally:
            await session.delete()


def _run_body(code: str, opts: IsolatedRunOpts | None) -> dict[str, Any]:
    body: dict[str, Any] = {"code": need_text(code, "code")}
    if opts is not None:
        body.update(opts.model_dump(exclude_none=True))
    return body
