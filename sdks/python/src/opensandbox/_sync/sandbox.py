# Written by tools/unasync from _async/sandbox.py. DO NOT EDIT.
"""Sandbox: one sandbox and all that can be done with it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from opensandbox._sync.commands import CommandsSync
from opensandbox._sync.egress import EgressSync
from opensandbox._sync.files import FilesystemSync
from opensandbox._sync.http import Http, Link
from opensandbox._sync.io import Returned, Stream, call, shielded, sleep
from opensandbox._sync.lifecycle import DiagnosticsSync, SandboxesSync
from opensandbox._sync.metrics import MetricsSync
from opensandbox._core.convert import wait_text
from opensandbox._core.errors import need_text
from opensandbox.config.connection_sync import ConnectionConfigSync
from opensandbox.constants import DEFAULT_EGRESS_PORT, DEFAULT_EXECD_PORT
from opensandbox.exceptions import (
    InvalidArgumentException,
    SandboxApiException,
    SandboxException,
    SandboxInternalException,
    SandboxReadyTimeoutException,
    SandboxUnhealthyException,
)
from opensandbox.models.diagnostics import DiagnosticContent
from opensandbox.models.sandboxes import (
    CreateSnapshotRequest,
    CredentialProxyConfig,
    NetworkPolicy,
    NetworkRule,
    PlatformSpec,
    SandboxEndpoint,
    SandboxImageSpec,
    SandboxInfo,
    SandboxLifecycle,
    SandboxMetrics,
    SandboxOrigin,
    SandboxRenewResponse,
    SandboxState,
    Secret,
    SnapshotInfo,
    Volume,
)

if TYPE_CHECKING:
    from opensandbox._sync.isolated import IsolationServiceSync
    from opensandbox._sync.pty import PtySync

logger = logging.getLogger("opensandbox")

FIRST_PAUSE_SECONDS = 0.01
PING_SECONDS_MAX = 5.0
ENDED = (SandboxState.FAILED, SandboxState.TERMINATED)


class SandboxSync:
    """A sandbox. Made by `create`, `connect` or `resume`; `close` frees local resources only,
    `kill` ends the sandbox itself."""

    def __init__(
        self,
        sandbox_id: str,
        link: Link,
        endpoint: SandboxEndpoint,
        custom_health_check: Callable[[SandboxSync], Returned[bool]] | None = None,
        origin: str = SandboxOrigin.UNKNOWN,
    ) -> None:
        self.id = sandbox_id
        self._link, self._origin = link, origin
        self._health_check = custom_health_check
        api = link.api()
        self._api = SandboxesSync(api)
        self._diagnostics = DiagnosticsSync(api)
        self._execd = link.endpoint(endpoint.endpoint, endpoint.headers)
        self._files = FilesystemSync(self._execd)
        self._commands = CommandsSync(self._execd)
        self._metrics = MetricsSync(self._execd)
        self._egress = EgressSync(self._egress_http)

    def _egress_http(self) -> Http:
        endpoint = self.get_endpoint(DEFAULT_EGRESS_PORT)
        return self._link.endpoint(endpoint.endpoint, endpoint.headers)

    # --- its services ---

    @property
    def origin(self) -> str:
        return self._origin

    @property
    def files(self) -> FilesystemSync:
        return self._files

    def files_with_identity(self, uid: int, gid: int) -> FilesystemSync:
        """Files as another user of the sandbox sees them."""
        if uid < 0 or gid < 0:
            raise InvalidArgumentException("uid and gid must not be negative")
        return FilesystemSync(self._execd.below(f"/v1/filesystem/{uid}/{gid}"))

    @property
    def commands(self) -> CommandsSync:
        return self._commands

    @property
    def metrics(self) -> MetricsSync:
        return self._metrics

    @property
    def credential_vault(self) -> EgressSync:
        return self._egress

    @property
    def egress(self) -> EgressSync:
        return self._egress

    @property
    def isolation(self) -> IsolationServiceSync:
        from opensandbox._sync.isolated import IsolationServiceSync

        return IsolationServiceSync(self._execd)

    @property
    def diagnostics(self) -> DiagnosticsSync:
        return self._diagnostics

    @property
    def connection_config(self) -> ConnectionConfigSync:
        return self._link.config

    def open_pty(
        self, command: str | None = None, *, working_directory: str | None = None
    ) -> PtySync:
        """A terminal in the sandbox."""
        from opensandbox._sync.pty import PtySync

        return PtySync.create(self._execd, command, working_directory)

    def attach_pty(
        self, session_id: str, *, offset: int = 0, takeover: bool = False
    ) -> PtySync:
        """A terminal that is there already, from byte `offset` of its output on."""
        from opensandbox._sync.pty import PtySync

        pty = PtySync(self._execd, need_text(session_id, "session_id"), offset)
        pty.connect(takeover)
        return pty

    # --- its life ---

    def get_info(self) -> SandboxInfo:
        return self._api.get_sandbox_info(self.id)

    def get_endpoint(self, port: int) -> SandboxEndpoint:
        """How a port of the sandbox is reached."""
        proxy = self._link.config.use_server_proxy
        return self._api.get_sandbox_endpoint(self.id, port, proxy)

    def get_signed_endpoint(self, port: int, expires: int) -> SandboxEndpoint:
        """An address that works without headers until `expires`, in seconds since 1970."""
        proxy = self._link.config.use_server_proxy
        return self._api.get_signed_sandbox_endpoint(self.id, port, expires, proxy)

    def get_metrics(self) -> SandboxMetrics:
        return self._metrics.get_metrics(self.id)

    def watch_metrics(self) -> Stream[SandboxMetrics]:
        """Figures about once a second."""
        return self._metrics.watch()

    def get_diagnostic_logs(self, scope: str) -> DiagnosticContent:
        return self._diagnostics.get_logs(self.id, scope)

    def get_diagnostic_events(self, scope: str) -> DiagnosticContent:
        return self._diagnostics.get_events(self.id, scope)

    def renew(self, timeout: timedelta) -> SandboxRenewResponse:
        """Lets the sandbox live until `timeout` from now."""
        return self._api.renew_sandbox(self.id, timeout)

    def patch_metadata(self, patch: dict[str, str | None]) -> SandboxInfo:
        """Changes metadata; None removes a key."""
        return self._api.patch_sandbox_metadata(self.id, patch)

    def create_snapshot(
        self, name: str | None = None, *, memory: bool | None = None
    ) -> SnapshotInfo:
        """A snapshot of the files; with `memory` of the processes, too."""
        request = CreateSnapshotRequest(name=name, memory=memory)
        return self._api.create_snapshot(self.id, request)

    def fork(
        self,
        count: int = 1,
        *,
        timeout: timedelta | None = None,
        env: dict[str, str | None] | None = None,
        metadata: dict[str, str] | None = None,
        entrypoint: list[str] | None = None,
        memory: bool | None = None,
    ) -> list[SandboxInfo]:
        """New sandboxes with the files of this one; with `memory` its processes go on there."""
        return self._api.fork_sandbox(
            self.id, count, timeout, env, metadata, entrypoint, memory
        )

    def rollback(self, snapshot_id: str) -> SandboxInfo:
        """Returns to the files of a snapshot."""
        return self._api.rollback_sandbox(self.id, snapshot_id)

    def get_egress_policy(self) -> NetworkPolicy:
        return self._egress.get_policy()

    def patch_egress_rules(self, rules: list[NetworkRule]) -> None:
        self._egress.patch_rules(rules)

    def delete_egress_rules(self, targets: list[str]) -> None:
        self._egress.delete_rules(targets)

    def pause(self) -> None:
        self._api.pause_sandbox(self.id)

    def stop(self) -> None:
        """Stops a persistent sandbox; its files stay."""
        self._api.stop_sandbox(self.id)

    def start(self) -> None:
        """Starts it again."""
        self._api.start_sandbox(self.id)

    def kill(self) -> None:
        """Ends the sandbox."""
        self._api.kill_sandbox(self.id)

    def close(self) -> None:
        """Frees local resources; the sandbox goes on."""
        self._link.close()

    def destroy(self) -> None:
        """Ends the sandbox and frees local resources."""
        try:
            self.kill()
        finally:
            self.close()

    def __enter__(self) -> SandboxSync:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- readiness ---

    def is_healthy(self) -> bool:
        """Whether the sandbox answers; never raises."""
        try:
            return self._probe(PING_SECONDS_MAX)
        except Exception:
            return False

    def _probe(self, seconds: float) -> bool:
        if self._health_check is not None:
            return bool(call(self._health_check, self))
        self._execd.send("GET", "/ping", timeout=seconds, repeat=False)
        return True

    def check_ready(self, timeout: timedelta, polling_interval: timedelta) -> None:
        """Waits until the sandbox answers. One that failed ends the wait at once."""
        end = time.monotonic() + timeout.total_seconds()
        pause, attempts = FIRST_PAUSE_SECONDS, 0
        last: Exception | None = None
        while True:
            left = end - time.monotonic()
            attempts += 1
            try:
                if self._probe(max(0.05, min(left, PING_SECONDS_MAX))):
                    return
                last = None
            except Exception as error:
                last = error
            self._check_state()
            left = end - time.monotonic()
            if left <= 0:
                raise self._not_ready(timeout, attempts, last)
            sleep(min(pause, left))
            pause = min(pause * 2, max(polling_interval.total_seconds(), 0.001))

    def _check_state(self) -> None:
        """Raises when the sandbox has ended; what the server cannot tell now is not an end."""
        try:
            info = self._api.get_sandbox_info(self.id)
        except SandboxApiException as error:
            if error.status_code == 404:
                raise
            return
        except SandboxException:
            return
        if info.status.state in ENDED:
            raise SandboxUnhealthyException(f"sandbox {wait_text(info)}")

    def _not_ready(
        self, timeout: timedelta, attempts: int, last: Exception | None
    ) -> SandboxReadyTimeoutException:
        config = self._link.config
        why = f"the last error was: {last}" if last else "the health check kept returning False"
        return SandboxReadyTimeoutException(
            f"sandbox {self.id} was not ready after {timeout.total_seconds():g} s and {attempts} "
            f"attempts; {why} (domain={config.get_domain()}, "
            f"use_server_proxy={config.use_server_proxy}). If its address cannot be reached from "
            "here, set use_server_proxy=True, or host_ip of the server's configuration.",
            last,
        )

    def wait_until(
        self, state: str, *, timeout: timedelta = timedelta(seconds=30)
    ) -> SandboxInfo:
        """Waits for a state, as SandboxState.PAUSED."""
        end, pause = time.monotonic() + timeout.total_seconds(), FIRST_PAUSE_SECONDS
        while True:
            info = self.get_info()
            if info.status.state == state:
                return info
            if info.status.state in ENDED:
                raise SandboxUnhealthyException(f"sandbox {wait_text(info)}")
            if time.monotonic() + pause > end:
                raise SandboxReadyTimeoutException(f"sandbox {wait_text(info)}, not {state}")
            sleep(pause)
            pause = min(pause * 2, 1.0)

    # --- making one ---

    @classmethod
    def create(
        cls,
        image: SandboxImageSpec | str | None = None,
        *,
        snapshot_id: str | None = None,
        timeout: timedelta | None = timedelta(minutes=10),
        ready_timeout: timedelta = timedelta(seconds=30),
        env: dict[str, str] | None = None,
        metadata: dict[str, str] | None = None,
        resource: dict[str, str] | None = None,
        resource_requests: dict[str, str] | None = None,
        platform: PlatformSpec | None = None,
        network_policy: NetworkPolicy | None = None,
        credential_proxy: CredentialProxyConfig | None = None,
        extensions: dict[str, str] | None = None,
        secure_access: bool = False,
        entrypoint: list[str] | None = None,
        volumes: list[Volume] | None = None,
        connection_config: ConnectionConfigSync | None = None,
        health_check: Callable[[SandboxSync], Returned[bool]] | None = None,
        health_check_polling_interval: timedelta = timedelta(milliseconds=200),
        skip_health_check: bool = False,
        lifecycle: SandboxLifecycle | None = None,
        secret_env: dict[str, Secret] | None = None,
        idempotency_key: str | None = None,
    ) -> SandboxSync:
        """A new sandbox of an image or a snapshot, ready to be used. A `timeout` of None: it lives
        until it is killed. `secret_env`: secrets by variable, which code inside never holds.
        `idempotency_key`: a second create with it and the same arguments returns the sandbox of the
        first, for a day; so the client repeats it like a GET. Both are extensions, which need our
        server."""
        link = Link(connection_config or ConnectionConfigSync())

        def make(api: SandboxesSync) -> str:
            created = api.create_sandbox(
                image, entrypoint, env, metadata, timeout, resource, network_policy, extensions,
                volumes, platform, secure_access, snapshot_id, credential_proxy,
                resource_requests, lifecycle, secret_env, idempotency_key,
            )  # fmt: skip
            return created.id

        return cls._made(
            link, make, True, health_check, ready_timeout, health_check_polling_interval,
            skip_health_check, SandboxOrigin.UNKNOWN,
        )  # fmt: skip

    @classmethod
    def create_from_template(
        cls,
        template_id: str,
        *,
        timeout: timedelta,
        ready_timeout: timedelta = timedelta(seconds=30),
        metadata: dict[str, str] | None = None,
        network_policy: NetworkPolicy | None = None,
        extensions: dict[str, str] | None = None,
        connection_config: ConnectionConfigSync | None = None,
        health_check: Callable[[SandboxSync], Returned[bool]] | None = None,
        health_check_polling_interval: timedelta = timedelta(milliseconds=200),
        skip_health_check: bool = False,
    ) -> SandboxSync:
        """A new sandbox of a template, where the server has templates."""
        link = Link(connection_config or ConnectionConfigSync())

        def make(api: SandboxesSync) -> str:
            created = api.create_sandbox_from_template(
                template_id, timeout, metadata, network_policy, extensions
            )
            return created.id

        return cls._made(
            link, make, True, health_check, ready_timeout, health_check_polling_interval,
            skip_health_check, SandboxOrigin.TEMPLATE,
        )  # fmt: skip

    @classmethod
    def connect(
        cls,
        sandbox_id: str,
        connection_config: ConnectionConfigSync | None = None,
        health_check: Callable[[SandboxSync], Returned[bool]] | None = None,
        connect_timeout: timedelta = timedelta(seconds=30),
        health_check_polling_interval: timedelta = timedelta(milliseconds=200),
        skip_health_check: bool = False,
    ) -> SandboxSync:
        """A sandbox that is there already."""
        need_text(sandbox_id, "sandbox_id")
        link = Link(connection_config or ConnectionConfigSync())

        def find(_: SandboxesSync) -> str:
            return sandbox_id

        return cls._made(
            link, find, False, health_check, connect_timeout, health_check_polling_interval,
            skip_health_check, SandboxOrigin.UNKNOWN,
        )  # fmt: skip

    @classmethod
    def resume(
        cls,
        sandbox_id: str,
        connection_config: ConnectionConfigSync | None = None,
        health_check: Callable[[SandboxSync], Returned[bool]] | None = None,
        resume_timeout: timedelta = timedelta(seconds=30),
        health_check_polling_interval: timedelta = timedelta(milliseconds=200),
        skip_health_check: bool = False,
    ) -> SandboxSync:
        """A paused sandbox, which goes on."""
        need_text(sandbox_id, "sandbox_id")
        link = Link(connection_config or ConnectionConfigSync())

        def wake(api: SandboxesSync) -> str:
            api.resume_sandbox(sandbox_id)
            return sandbox_id

        return cls._made(
            link, wake, False, health_check, resume_timeout, health_check_polling_interval,
            skip_health_check, SandboxOrigin.UNKNOWN,
        )  # fmt: skip

    @classmethod
    def _made(
        cls,
        link: Link,
        make: Callable[[SandboxesSync], Returned[str]],
        is_ours: bool,
        health_check: Callable[[SandboxSync], Returned[bool]] | None,
        ready_timeout: timedelta,
        polling_interval: timedelta,
        skip_health_check: bool,
        origin: str,
    ) -> SandboxSync:
        """The steps that create, connect and resume share. What fails leaves nothing behind: a
        sandbox that was created here is killed, the connections are closed."""
        api = SandboxesSync(link.api())
        made: list[str] = []

        def step() -> None:
            made.append(make(api))

        operation = "Sandbox.create" if is_ours else "Sandbox.connect"
        try:
            with link.tracing.operation(operation) as span:
                shielded(step)  # a request that was sent may have made one: learn its id
                sandbox_id = made[0]
                span.set("sandbox.id", sandbox_id)
                endpoint = api.get_sandbox_endpoint(
                    sandbox_id, DEFAULT_EXECD_PORT, link.config.use_server_proxy
                )
                sandbox = cls(sandbox_id, link, endpoint, health_check, origin)
                if not skip_health_check:
                    sandbox.check_ready(ready_timeout, polling_interval)
                return sandbox
        except BaseException as error:
            if is_ours and made:
                _discard(api, made[0])
            link.close()
            if isinstance(error, (SandboxException, ValueError)) or not isinstance(
                error, Exception
            ):
                raise
            raise SandboxInternalException(f"no sandbox could be made: {error}", error) from error


def _discard(api: Any, sandbox_id: str) -> None:
    try:
        api.kill_sandbox(sandbox_id)
    except SandboxException as error:
        logger.warning("sandbox %s could not be removed: %s", sandbox_id, error)
