"""operations.py - the operations of sdks/conformance/cases.yaml with the Python SDK.

Written once for both clients: every result goes through `await done(...)`, which waits for the
async client and passes on what the sync client returned.
"""
import inspect
import io
from datetime import timedelta, timezone

import opensandbox
from opensandbox import models
from opensandbox.config import ConnectionConfig, ConnectionConfigSync
from opensandbox.exceptions import (
    InvalidArgumentException,
    SandboxApiException,
    SandboxInternalException,
    SandboxReadyTimeoutException,
    SandboxUnhealthyException,
)
from opensandbox.models import (
    ContentReplaceEntry,
    CredentialProxyConfig,
    DirectoryListEntry,
    MoveEntry,
    NetworkPolicy,
    NetworkRule,
    PlatformSpec,
    SandboxFilter,
    SandboxImageAuth,
    SandboxImageSpec,
    SearchEntry,
    SetPermissionEntry,
    Volume,
    WriteEntry,
)
from opensandbox.models.execd import ExecutionHandlers, RunCommandOpts
from opensandbox.models.execd_sync import ExecutionHandlersSync
from opensandbox.models.isolated import (
    CreateIsolatedSessionRequest,
    IsolatedRunOpts,
    IsolatedWorkspaceSpec,
)
from opensandbox.models.sandboxes import SnapshotFilter
from opensandbox.transport import JitterMode, RetryPolicy
from code_interpreter import CodeInterpreter, CodeInterpreterSync
from code_interpreter.models.code import CodeContext
from code_interpreter.models.code_sync import CodeContextSync

SECONDS_MAX = 60


async def done(value):
    return await value if inspect.isawaitable(value) else value


async def listed(stream, count=None):
    """What an iterator of either kind gives, or the first `count` of it."""
    stream, out = await done(stream), []
    if hasattr(stream, "__aiter__"):
        try:
            async for item in stream:
                out.append(item)
                if len(out) == count:
                    break
        finally:
            await stream.aclose()
        return out
    for item in stream:
        out.append(item)
        if len(out) == count:
            break
    stream.close()
    return out


# --- neutral forms ---


def when(value):
    if value is None:
        return None
    value = value.astimezone(timezone.utc)
    digits = "%Y-%m-%dT%H:%M:%S.%fZ" if value.microsecond else "%Y-%m-%dT%H:%M:%SZ"
    return value.strftime(digits)


def info_form(info):
    return {"id": info.id, "image": info.image.image if info.image else None,
            "snapshot_id": info.snapshot_id, "state": info.status.state,
            "reason": info.status.reason, "message": info.status.message,
            "metadata": info.metadata, "entrypoint": info.entrypoint,
            "expires_at": when(info.expires_at), "created_at": when(info.created_at),
            "platform": info.platform.model_dump() if info.platform else None}


def snapshot_form(info):
    return {"id": info.id, "sandbox_id": info.sandbox_id, "name": info.name,
            "state": info.status.state, "created_at": when(info.created_at)}


def page_form(items, pagination):
    return {"items": items, **pagination.model_dump()}


def execution_form(run):
    error = None
    if run.error:
        error = {"name": run.error.name, "value": run.error.value,
                 "traceback": run.error.traceback}
    return {"id": run.id, "stdout": [m.text for m in run.logs.stdout],
            "stderr": [m.text for m in run.logs.stderr],
            "results": [r.extra_properties for r in run.result], "error": error,
            "complete_ms": run.complete.execution_time_in_millis if run.complete else None,
            "exit_code": run.exit_code, "execution_count": run.execution_count, "text": run.text}


def file_form(entry):
    return {"path": entry.path, "type": entry.entry_type, "size": entry.size, "mode": entry.mode,
            "owner": entry.owner, "group": entry.group, "modified_at": when(entry.modified_at),
            "created_at": when(entry.created_at)}


def metrics_form(m):
    return {"cpu_count": m.cpu_count, "cpu_used_pct": m.cpu_used_percentage,
            "mem_total_mib": m.memory_total_in_mib, "mem_used_mib": m.memory_used_in_mib,
            "timestamp": m.timestamp}


def vault_form(state):
    return {"revision": state.revision,
            "credentials": [c.model_dump() for c in state.credentials],
            "bindings": [{"name": b.name, "revision": b.revision} for b in state.bindings]}


def pool_form(pool):
    return {"name": pool.name, **pool.status.model_dump()}


def volume_form(info):
    return {"name": info.name, "size_bytes": info.size_bytes, "used_by": info.used_by}


def image_form(info):
    return {"id": info.id, "names": info.names, "size": info.size, "in_use": info.in_use}


def diagnostic_form(content):
    return {**content.model_dump(), "expires_at": when(content.expires_at)}


def error_form(error):
    """An exception in its neutral form; None for one that no SDK should raise."""
    kinds = [(SandboxApiException, "api"), (SandboxInternalException, "internal"),
             (SandboxReadyTimeoutException, "ready_timeout"),
             (SandboxUnhealthyException, "unhealthy"),
             (InvalidArgumentException, "invalid_argument"), (ValueError, "invalid_argument")]
    found = next((name for kind, name in kinds if isinstance(error, kind)), None)
    if found is None:
        return None
    told = getattr(error, "error", None)
    after = getattr(error, "retry_after", None)
    return {"class": found, "code": getattr(told, "code", None), "message": str(error),
            "status": getattr(error, "status_code", None),
            "request_id": getattr(error, "request_id", None),
            "retry_after_s": after.total_seconds() if after is not None else None}


def span(arguments, name, unit="milliseconds"):
    value = arguments.get(name)
    return None if value is None else timedelta(**{unit: value})


def given(**values):
    return {name: value for name, value in values.items() if value is not None}


# --- operations ---


class Operations:
    """One case: its settings, its sandbox and its manager."""

    def __init__(self, kind, config):
        self.is_async, self.settings = kind == "async", config
        self.sandbox = self.manager = None
        self.open = []

    def pick(self, of_async, of_sync):
        return of_async if self.is_async else of_sync

    def config(self):
        c = self.settings
        retry = c.get("retry") or {}
        pause = timedelta(milliseconds=retry.get("backoff_ms", 1))
        policy = RetryPolicy(max_retries=retry.get("max", 3), initial_backoff=pause,
                             max_backoff=pause, jitter=JitterMode.NONE)
        kind = self.pick(ConnectionConfig, ConnectionConfigSync)
        return kind(**given(
            domain=c.get("domain"), api_key=c.get("api_key"), protocol=c.get("protocol"),
            headers=c.get("headers"), use_server_proxy=c.get("use_server_proxy"),
            request_timeout=span(c, "request_timeout_ms"), retry_policy=policy))

    async def run(self, name, arguments):
        room, _, verb = name.partition(".")
        function = getattr(self, f"{room}_{verb}", None)
        if function is None:
            raise NotImplementedError(name)
        return await function(**arguments)

    async def close(self):
        for thing in self.open:
            await done(thing.close())

    async def all(self):
        """The manager, made by the first call that needs it."""
        if self.manager is None:
            kind = self.pick(opensandbox.SandboxManager, opensandbox.SandboxManagerSync)
            self.manager = await done(kind.create(self.config()))
            self.open.append(self.manager)
        return self.manager

    async def config_show(self):
        config = self.config()
        return {"base_url": config.get_base_url(), "api_key": config.get_api_key(),
                "protocol": config.get_protocol() if hasattr(config, "get_protocol")
                else config.protocol}

    # --- sandbox ---

    def use(self, sandbox):
        self.sandbox = sandbox
        self.open.append(sandbox)
        return {"id": sandbox.id}

    async def sandbox_create(self, image=None, image_auth=None, network_policy=None,
                             credential_proxy=None, secret_env=None, platform=None, volumes=None,
                             ready_timeout_ms=None, poll_ms=None, **more):
        if image_auth:
            image = SandboxImageSpec(image, auth=SandboxImageAuth(**image_auth))
        if "timeout_s" in more:
            seconds = more.pop("timeout_s")
            more["timeout"] = None if seconds is None else timedelta(seconds=seconds)
        kind = self.pick(opensandbox.Sandbox, opensandbox.SandboxSync)
        options = {"ready_timeout_ms": ready_timeout_ms, "poll_ms": poll_ms}
        more["connection_config"] = self.config()
        return self.use(await done(kind.create(image, **more, **given(
            network_policy=NetworkPolicy(**network_policy) if network_policy else None,
            credential_proxy=CredentialProxyConfig(enabled=True) if credential_proxy else None,
            secret_env={name: models.Secret(**secret) for name, secret in secret_env.items()}
            if secret_env else None,
            platform=PlatformSpec(**platform) if platform else None,
            volumes=[Volume(**v) for v in volumes] if volumes else None,
            ready_timeout=span(options, "ready_timeout_ms"),
            health_check_polling_interval=span(options, "poll_ms")))))

    async def sandbox_connect(self, id, timeout_ms=None, poll_ms=None, skip_health_check=False):
        options = {"t": timeout_ms, "p": poll_ms}
        kind = self.pick(opensandbox.Sandbox, opensandbox.SandboxSync)
        return self.use(await done(kind.connect(
            id, connection_config=self.config(), skip_health_check=skip_health_check,
            **given(connect_timeout=span(options, "t"),
                    health_check_polling_interval=span(options, "p")))))

    async def sandbox_resume(self, id):
        kind = self.pick(opensandbox.Sandbox, opensandbox.SandboxSync)
        return self.use(await done(kind.resume(id, connection_config=self.config())))

    async def sandbox_info(self):
        return info_form(await done(self.sandbox.get_info()))

    async def sandbox_renew(self, seconds):
        return {"expires_at": when(
            (await done(self.sandbox.renew(timedelta(seconds=seconds)))).expires_at)}

    async def sandbox_pause(self):
        await done(self.sandbox.pause())

    async def sandbox_kill(self):
        await done(self.sandbox.kill())

    async def sandbox_close(self):
        await done(self.sandbox.close())

    async def sandbox_patch_metadata(self, patch):
        return info_form(await done(self.sandbox.patch_metadata(patch)))

    async def sandbox_endpoint(self, port):
        found = await done(self.sandbox.get_endpoint(port))
        return {"endpoint": found.endpoint, "headers": found.headers}

    async def sandbox_signed_endpoint(self, port, expires):
        found = await done(self.sandbox.get_signed_endpoint(port, expires))
        return {"endpoint": found.endpoint, "headers": found.headers}

    async def sandbox_is_healthy(self):
        return await done(self.sandbox.is_healthy())

    async def sandbox_metrics(self):
        return metrics_form(await done(self.sandbox.get_metrics()))

    async def metrics_watch(self, count):
        return [metrics_form(m) for m in await listed(self.sandbox.watch_metrics(), count)]

    async def sandbox_diagnostic_logs(self, scope):
        return diagnostic_form(await done(self.sandbox.get_diagnostic_logs(scope)))

    async def sandbox_diagnostic_events(self, scope):
        return diagnostic_form(await done(self.sandbox.get_diagnostic_events(scope)))

    async def sandbox_snapshot(self, name=None, **more):
        return snapshot_form(await done(self.sandbox.create_snapshot(name, **more)))

    async def sandbox_fork(self, count, **more):
        return [info_form(i) for i in await done(self.sandbox.fork(count, **more))]

    async def sandbox_rollback(self, snapshot_id):
        return info_form(await done(self.sandbox.rollback(snapshot_id)))

    # --- commands ---

    def handlers(self, seen, **more):
        def teller(kind, text):
            def plain(event):
                seen.append([kind, text(event)])

            async def awaited(event):
                plain(event)
            return self.pick(awaited, plain)

        return self.pick(ExecutionHandlers, ExecutionHandlersSync)(
            on_init=teller("init", lambda e: e.id),
            on_stdout=teller("stdout", lambda e: e.text),
            on_stderr=teller("stderr", lambda e: e.text),
            on_result=teller("result", lambda e: e.text),
            on_error=teller("error", lambda e: e.value),
            on_execution_complete=teller("complete", lambda _: None), **more)

    @staticmethod
    def command(a):
        opts = given(working_directory=a.get("cwd"), background=a.get("background"),
                     timeout=span(a, "timeout_ms"), uid=a.get("uid"), gid=a.get("gid"),
                     envs=a.get("envs"), stdin=a.get("stdin"))
        return a.get("argv") or a["command"], RunCommandOpts(**opts) if opts else None

    async def command_run(self, **a):
        command, opts = self.command(a)
        handlers = self.handlers([], skip_accumulation=True) if a.get("skip_accumulation") else None
        return execution_form(await done(
            self.sandbox.commands.run(command, opts=opts, handlers=handlers)))

    async def command_handlers(self, **a):
        command, opts = self.command(a)
        seen = []
        await done(self.sandbox.commands.run(command, opts=opts, handlers=self.handlers(seen)))
        return seen

    async def command_iterate(self, **a):
        command, opts = self.command(a)
        events = await listed(self.sandbox.commands.stream(command, opts=opts))
        return [[e.type, e.text] for e in events]

    async def command_status(self, id):
        status = await done(self.sandbox.commands.get_command_status(id))
        return {**status.model_dump(), "started_at": when(status.started_at),
                "finished_at": when(status.finished_at)}

    async def command_logs(self, id, cursor=None):
        logs = await done(self.sandbox.commands.get_background_command_logs(id, cursor))
        return {"content": logs.content, "cursor": logs.cursor}

    async def command_interrupt(self, id):
        await done(self.sandbox.commands.interrupt(id))

    async def command_stdin(self, id, data, eof=False):
        await done(self.sandbox.commands.write_stdin(id, data, eof=eof))

    async def command_background_until_end(self, command):
        run = await done(self.sandbox.commands.run(command, opts=RunCommandOpts(background=True)))
        await done(self.sandbox.commands.wait(run.id, timeout=timedelta(seconds=SECONDS_MAX)))
        return {**await self.command_status(run.id), **await self.command_logs(run.id)}

    # --- sessions ---

    async def session_create(self, cwd=None):
        return await done(self.sandbox.commands.create_session(working_directory=cwd))

    async def session_run(self, id, command, cwd=None, timeout_ms=None):
        return execution_form(await done(self.sandbox.commands.run_in_session(
            id, command, working_directory=cwd, timeout=span({"t": timeout_ms}, "t"))))

    async def session_delete(self, id):
        await done(self.sandbox.commands.delete_session(id))

    async def session_create_and_run(self, cwd, commands):
        session = await self.session_create(cwd)
        results = [await self.session_run(session, command) for command in commands]
        await self.session_delete(session)
        return results

    # --- files ---

    def files(self, uid=None, gid=None):
        if uid is not None:
            return self.sandbox.files_with_identity(uid, gid)
        return self.sandbox.files

    async def files_read(self, path, range=None, offset=None, limit=None, uid=None, gid=None):
        return await done(self.files(uid, gid).read_file(
            path, range_header=range, offset=offset, limit=limit))

    async def files_read_bytes(self, path):
        return (await done(self.files().read_bytes(path))).hex()

    async def files_read_stream(self, path, chunk_size):
        pieces = await listed(self.files().read_bytes_stream(path, chunk_size=chunk_size))
        assert all(len(piece) <= chunk_size for piece in pieces)
        return sum(map(len, pieces))

    async def files_write(self, path, text, **more):
        await done(self.files().write_file(path, text, **more))

    async def files_write_many(self, entries):
        rows = [WriteEntry(data=e.pop("text"), **e) for e in map(dict, entries)]
        await done(self.files().write_files(rows))

    async def files_write_stream(self, path, text, times):
        await done(self.files().write_file(path, io.BytesIO(text.encode() * times)))

    async def files_info(self, paths):
        found = await done(self.files().get_file_info(paths))
        return {path: file_form(entry) for path, entry in found.items()}

    async def files_search(self, path, pattern):
        found = await done(self.files().search(SearchEntry(path=path, pattern=pattern)))
        return [file_form(entry) for entry in found]

    async def files_list(self, path, depth=None):
        found = await done(self.files().list_directory(DirectoryListEntry(path=path, depth=depth)))
        return [file_form(entry) for entry in found]

    async def files_delete(self, paths):
        await done(self.files().delete_files(paths))

    async def files_delete_directories(self, paths):
        await done(self.files().delete_directories(paths))

    async def files_make_directories(self, entries):
        await done(self.files().create_directories([WriteEntry(**e) for e in entries]))

    async def files_permissions(self, entries):
        await done(self.files().set_permissions([SetPermissionEntry(**e) for e in entries]))

    async def files_move(self, entries):
        await done(self.files().move_files([MoveEntry(**e) for e in entries]))

    @staticmethod
    def replacements(entries):
        return [ContentReplaceEntry(path=e["path"], old_content=e["old"], new_content=e["new"])
                for e in entries]

    async def files_replace(self, entries):
        await done(self.files().replace_contents(self.replacements(entries)))

    async def files_replace_detailed(self, entries):
        found = await done(self.files().replace_contents_detailed(self.replacements(entries)))
        return [row.model_dump() for row in found]

    async def files_watch(self, path, count, recursive=False):
        events = await listed(self.files().watch(path, recursive=recursive), count)
        return [{"type": e.type, "path": e.path, "from": e.from_path, "directory": e.directory}
                for e in events]

    # --- code ---

    async def codes(self):
        kind = self.pick(CodeInterpreter, CodeInterpreterSync)
        return (await done(kind.create(self.sandbox, skip_health_check=True))).codes

    async def code_run(self, code, language=None, context=None):
        if context:
            context = self.pick(CodeContext, CodeContextSync)(**context)
        codes = await self.codes()
        return execution_form(await done(codes.run(code, language=language, context=context)))

    async def code_create_context(self, language):
        return (await done((await self.codes()).create_context(language))).model_dump()

    async def code_get_context(self, id):
        return (await done((await self.codes()).get_context(id))).model_dump()

    async def code_list_contexts(self, language):
        return [c.model_dump() for c in await done((await self.codes()).list_contexts(language))]

    async def code_delete_context(self, id):
        await done((await self.codes()).delete_context(id))

    async def code_delete_contexts(self, language):
        await done((await self.codes()).delete_contexts(language))

    async def code_interrupt(self, id):
        await done((await self.codes()).interrupt(id))

    # --- egress and vault ---

    async def egress_get(self):
        return (await done(self.sandbox.get_egress_policy())).model_dump()

    async def egress_patch(self, rules):
        await done(self.sandbox.patch_egress_rules([NetworkRule(**r) for r in rules]))

    async def egress_delete(self, targets):
        await done(self.sandbox.delete_egress_rules(targets))

    @staticmethod
    def credentials(rows):
        return [{"name": r["name"], "source": {"type": "inline", "value": r["value"]}}
                for r in rows]

    async def vault_create(self, credentials, bindings):
        return vault_form(await done(self.sandbox.credential_vault.create(
            credentials=self.credentials(credentials), bindings=bindings)))

    async def vault_get(self):
        return vault_form(await done(self.sandbox.credential_vault.get()))

    async def vault_patch(self, expected_revision=None, credentials=None, bindings=None):
        if credentials:
            credentials = {k: v if k == "delete" else self.credentials(v)
                           for k, v in credentials.items()}
        return vault_form(await done(self.sandbox.credential_vault.patch(
            expected_revision=expected_revision, credentials=credentials, bindings=bindings)))

    async def vault_delete(self):
        await done(self.sandbox.credential_vault.delete())

    async def vault_list_credentials(self):
        found = await done(self.sandbox.credential_vault.list_credentials())
        return [c.model_dump() for c in found]

    async def vault_get_credential(self, name):
        return (await done(self.sandbox.credential_vault.get_credential(name))).model_dump()

    async def vault_list_bindings(self):
        found = await done(self.sandbox.credential_vault.list_bindings())
        return [b.model_dump() for b in found]

    async def vault_get_binding(self, name):
        return (await done(self.sandbox.credential_vault.get_binding(name))).model_dump()

    # --- manager ---

    async def manager_list(self, **filters):
        page = await done((await self.all()).list_sandbox_infos(SandboxFilter(**filters)))
        return page_form([info_form(i) for i in page.sandbox_infos], page.pagination)

    async def manager_iterate(self, **filters):
        manager = await self.all()
        return [i.id for i in await listed(manager.iterate_sandbox_infos(SandboxFilter(**filters)))]

    async def manager_get(self, id):
        return info_form(await done((await self.all()).get_sandbox_info(id)))

    async def manager_kill(self, id):
        await done((await self.all()).kill_sandbox(id))

    async def manager_pause(self, id):
        await done((await self.all()).pause_sandbox(id))

    async def manager_resume(self, id):
        await done((await self.all()).resume_sandbox(id))

    async def manager_renew(self, id, seconds):
        answer = await done((await self.all()).renew_sandbox(id, timedelta(seconds=seconds)))
        return {"expires_at": when(answer.expires_at)}

    async def manager_patch_metadata(self, id, patch):
        return info_form(await done((await self.all()).patch_sandbox_metadata(id, patch)))

    # --- snapshots ---

    async def snapshots_create(self, sandbox_id, name=None, **more):
        manager = await self.all()
        return snapshot_form(await done(manager.create_snapshot(sandbox_id, name, **more)))

    async def snapshots_get(self, id):
        return snapshot_form(await done((await self.all()).get_snapshot(id)))

    async def snapshots_list(self, **filters):
        page = await done((await self.all()).list_snapshots(SnapshotFilter(**filters)))
        return page_form([snapshot_form(i) for i in page.snapshot_infos], page.pagination)

    async def snapshots_delete(self, id):
        await done((await self.all()).delete_snapshot(id))

    async def snapshots_wait(self, id, poll_ms=200):
        return snapshot_form(await done((await self.all()).wait_for_snapshot(
            id, polling_interval=timedelta(milliseconds=poll_ms))))

    async def snapshots_round_trip(self, name):
        taken = await done(self.sandbox.create_snapshot(name))
        manager = await self.all()
        ready = await done(manager.wait_for_snapshot(taken.id))
        kind = self.pick(opensandbox.Sandbox, opensandbox.SandboxSync)
        other = await done(kind.create(snapshot_id=taken.id, connection_config=self.config()))
        restored = await done(other.files.read_file("/root/kept"))
        await done(other.destroy())
        await done(manager.delete_snapshot(taken.id))
        return {"state": ready.status.state, "restored": restored}

    # --- isolated sessions ---

    async def isolated_create(self, path, mode=None):
        self.isolated = await done(self.sandbox.isolation.create(CreateIsolatedSessionRequest(
            workspace=IsolatedWorkspaceSpec(path=path, **given(mode=mode)))))
        return {"id": self.isolated.session_id}

    async def isolated_run(self, code, timeout_s=None, **more):
        more = given(timeout_seconds=timeout_s, **more)
        opts = IsolatedRunOpts(**more) if more else None
        return execution_form(await done(self.isolated.run(code, opts=opts)))

    async def isolated_run_background(self, code):
        return {"run_id": (await done(self.isolated.run_background(code))).run_id}

    async def isolated_run_status(self, run_id):
        status = await done(self.isolated.run_status(run_id))
        return {"run_id": status.run_id, "running": status.running, "exit_code": status.exit_code,
                "finished_at": when(status.finished_at)}

    async def isolated_run_logs(self, run_id, cursor=0):
        logs = await done(self.isolated.run_logs(run_id, cursor))
        return {"content": logs.text, "cursor": logs.cursor}

    async def isolated_diff(self):
        return b"".join(await listed(self.isolated.diff())).hex()

    async def isolated_commit(self, reset=None):
        return await done(self.isolated.commit(**given(reset_upper_after=reset)))

    async def isolated_delete(self):
        await done(self.isolated.delete())

    # --- events ---

    async def events_watch(self, count, **where):
        events = await listed((await self.all()).watch_events(**where), count)
        return [{**event.model_dump(), "time": when(event.time)} for event in events]

    async def events_watch_a_pause(self):
        stream = (await self.all()).watch_events(sandbox_id=self.sandbox.id, after="0-1")
        found = None
        while found is None:
            event = await done(stream.__anext__() if self.is_async else next(stream))
            if event.type == "reset":
                await done(self.sandbox.pause())
            elif event.type == "sandbox.paused":
                found = event
        await done(stream.aclose() if self.is_async else stream.close())
        return {"type": found.type, "state": found.state,
                "mine": found.sandbox_id == self.sandbox.id}

    # --- images, pools, volumes ---

    async def images_list(self, page, page_size):
        found = await done((await self.all()).list_images(page, page_size))
        return page_form([image_form(i) for i in found.image_infos], found.pagination)

    async def images_get(self, name):
        return image_form(await done((await self.all()).get_image(name)))

    async def images_delete(self, name):
        await done((await self.all()).delete_image(name))

    async def images_pull(self, uri, policy=None):
        return image_form(await done((await self.all()).pull_image(uri, policy=policy)))

    async def pools_create(self, name, template, capacity):
        return pool_form(await done((await self.all()).create_pool(
            name, template, models.CapacitySpec(**capacity))))

    async def pools_get(self, name):
        return pool_form(await done((await self.all()).get_pool(name)))

    async def pools_list(self):
        return [pool_form(p) for p in await done((await self.all()).list_pools())]

    async def pools_update(self, name, capacity):
        return pool_form(await done((await self.all()).update_pool(
            name, models.CapacitySpec(**capacity))))

    async def pools_delete(self, name):
        await done((await self.all()).delete_pool(name))

    async def volumes_create(self, name, size=None):
        return volume_form(await done((await self.all()).create_volume(name, size)))

    async def volumes_get(self, name):
        return volume_form(await done((await self.all()).get_volume(name)))

    async def volumes_delete(self, name):
        await done((await self.all()).delete_volume(name))


