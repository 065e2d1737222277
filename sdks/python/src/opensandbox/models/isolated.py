"""Models of isolated sessions: a sandbox inside the sandbox."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from opensandbox.models._base import Model


class IsolatedWorkspaceSpec(Model):
    path: str
    mode: str | None = None


class IsolatedOverlaySpec(Model):
    path: str
    mode: str | None = None
    persist: bool | None = None


class EnvPassthroughSpec(Model):
    mode: str = "deny"
    keys: list[str] = Field(default_factory=list)


class BindMount(Model):
    source: str
    dest: str | None = None
    readonly: bool | None = None


class _Isolation(Model):
    workspace: IsolatedWorkspaceSpec | None = None
    overlays: list[IsolatedOverlaySpec] | None = None
    profile: str | None = None
    extra_writable: list[str] | None = None
    binds: list[BindMount] | None = None
    share_net: bool | None = None
    env_passthrough: EnvPassthroughSpec | None = None
    uid: int | None = None
    gid: int | None = None
    uid_mode: str | None = None
    idle_timeout_seconds: int | None = None


class CreateIsolatedSessionRequest(_Isolation):
    """What a session is to be like."""


class IsolatedSessionInfo(_Isolation):
    """What a session was made of."""

    session_id: str
    created_at: datetime | None = None


class IsolatedSessionState(_Isolation):
    """How a session fares."""

    status: str
    created_at: datetime | None = None
    last_run_at: datetime | None = None
    idle_remaining_seconds: int | None = None


class IsolatedSessionSummary(Model):
    session_id: str
    status: str
    created_at: datetime
    last_run_at: datetime
    idle_remaining_seconds: int | None = None


class IsolatedRunOpts(Model):
    cwd: str | None = None
    envs: dict[str, str] | None = None
    timeout_seconds: int | None = None


class IsolatedBackgroundRun(Model):
    session_id: str
    run_id: str
    started_at: datetime | None = None


class IsolatedRunStatus(Model):
    session_id: str
    run_id: str
    running: bool
    exit_code: int | None = None
    error: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None


class IsolatedRunLogs(Model):
    text: str
    cursor: int


class HardeningLayerState(Model):
    state: str | None = None
    message: str | None = None


class HardeningStatus(Model):
    init_mode: str | None = None
    signal_shield: bool = False
    cap_drop: HardeningLayerState | None = None
    seccomp: HardeningLayerState | None = None
    landlock: HardeningLayerState | None = None
    ebpf: HardeningLayerState | None = None


class IsolatedCapabilities(Model):
    available: bool = False
    isolator: str | None = None
    version: str | None = None
    message: str | None = None
    setpriv_available: bool = False
    userns_available: bool = False
    commit_supported: bool = False
    diff_supported: bool = False
    hardening: HardeningStatus | None = None
