"""sdk_snapshots.py - what programs do with snapshots: of a sandbox and of the manager."""
from opensandbox.exceptions import SandboxApiException
from opensandbox.models.sandboxes import SnapshotFilter

from sdk_client import discard, done, raises
from sdk_commands import run, until

UNKNOWN = "00000000-0000-4000-8000-000000000000"


async def ready(manager, snapshot):
    async def is_ready():
        info = await done(manager.get_snapshot(snapshot.id))
        assert info.status.state in ("Creating", "Ready"), info
        return info.status.state == "Ready"
    await until("the snapshot", is_ready)


async def a_snapshot_is_taken_listed_restored_and_deleted(client):
    manager, sandbox = await client.manager(), await client.create()
    try:
        await done(sandbox.files.write_file("/root/kept", "of the snapshot"))
        first = await done(sandbox.create_snapshot("first"))
        assert (first.sandbox_id, first.name) == (sandbox.id, "first"), first
        await ready(manager, first)
        await done(sandbox.files.write_file("/root/kept", "changed since"))
        second = await done(manager.create_snapshot(sandbox.id))
        await ready(manager, second)

        async def listed(**fields):
            page = await done(manager.list_snapshots(SnapshotFilter(**fields)))
            return [info.id for info in page.snapshot_infos]
        assert await listed(sandbox_id=sandbox.id) == [second.id, first.id]
        assert await listed(sandbox_id=sandbox.id, states=["Ready"], page_size=1, page=2) == [
            first.id]
        assert await listed(sandbox_id=sandbox.id, states=["Failed"]) == []
        if "name" in SnapshotFilter.model_fields:
            assert await listed(sandbox_id=sandbox.id, name="first") == [first.id]
        restored = await client.create(None, snapshot_id=first.id)
        try:
            assert (await run(restored, "cat /root/kept")).text == "of the snapshot"
            await done(manager.delete_snapshot(first.id))  # its files stay for the sandbox
            assert (await run(restored, "cat /root/kept")).text == "of the snapshot"
        finally:
            await discard(restored)
        error = await raises(SandboxApiException, lambda: manager.get_snapshot(first.id))
        assert (error.status_code, error.error.code) == (404, "SNAPSHOT::NOT_FOUND"), error
        await done(manager.delete_snapshot(second.id))
        assert await listed(sandbox_id=sandbox.id) == []
    finally:
        await discard(sandbox)
        await done(manager.close())


async def snapshots_refuse_what_is_wrong(client):
    manager, sandbox = await client.manager(), await client.create()
    try:
        error = await raises(SandboxApiException, lambda: manager.create_snapshot(UNKNOWN))
        assert error.status_code == 404, error
        error = await raises(SandboxApiException, lambda: manager.delete_snapshot(UNKNOWN))
        assert (error.status_code, error.error.code) == (404, "SNAPSHOT::NOT_FOUND"), error
        error = await raises(SandboxApiException, lambda: client.Sandbox.create(
            snapshot_id=UNKNOWN, connection_config=client.config()))
        assert error.status_code == 404, error
        await done(sandbox.pause())
        error = await raises(SandboxApiException, sandbox.create_snapshot)
        assert (error.status_code, error.error.code) == (
            409, "SNAPSHOT::INVALID_SOURCE_STATE"), error
    finally:
        await discard(sandbox)
        await done(manager.close())


TESTS = [
    a_snapshot_is_taken_listed_restored_and_deleted,
    snapshots_refuse_what_is_wrong,
]
