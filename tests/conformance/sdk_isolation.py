"""sdk_isolation.py - what programs do with `sandbox.isolation`, which newer SDKs have."""
from opensandbox.exceptions import SandboxApiException
from opensandbox.models.filesystem import (ContentReplaceEntry, DirectoryListEntry, MoveEntry,
                                           SearchEntry, SetPermissionEntry, WriteEntry)
from opensandbox.models.isolated import (CreateIsolatedSessionRequest, IsolatedRunOpts,
                                         IsolatedWorkspaceSpec)

from sdk_client import done, lines, raises
from sdk_commands import run, until


async def create(sandbox, path, mode=None, **more):
    return await done(sandbox.isolation.create(CreateIsolatedSessionRequest(
        workspace=IsolatedWorkspaceSpec(path=path, mode=mode), **more)))


async def isolation_says_what_it_can(_, sandbox):
    can = await done(sandbox.isolation.capabilities())
    assert can.available and can.isolator and can.version and can.message is None, can
    assert can.setpriv_available and can.diff_supported and can.commit_supported, can


async def an_isolated_session_runs_code(client, sandbox):
    session = await create(sandbox, "/srv/i", uid=1000, gid=1001, idle_timeout_seconds=600)
    assert session.info.workspace.path == "/srv/i" and session.info.uid == 1000, session.info
    said = []
    result = await done(session.run(
        "pwd; id -u; id -g; echo $A; touch mine; kept=yes; echo bad >&2; (exit 3)",
        opts=IsolatedRunOpts(envs={"A": "b c"}, timeout_seconds=20),
        handlers=client.handlers(on_stdout=lambda event: said.append(event.text))))
    assert lines(result.logs.stdout) == said == ["/srv/i", "1000", "1001", "b c"], result
    assert lines(result.logs.stderr) == ["bad"] and result.exit_code == 3, result
    assert (await run(sandbox, "ls /srv/i")).text == "", "written below an overlay"

    state = await done(session.get())
    assert state.status == "active" and 0 < state.idle_remaining_seconds <= 600, state
    assert state.profile == "strict" and state.workspace.mode == "overlay", state
    listed = await done(sandbox.isolation.list())
    assert session.session_id in [row.session_id for row in listed], listed
    again = await done(sandbox.isolation.attach(session.session_id))
    assert again.info.gid == 1001 and again.info.idle_timeout_seconds == 600, again.info
    assert (await done(again.run("echo $kept"))).text == "yes"
    await done(session.delete())
    error = await raises(SandboxApiException, session.get)
    assert error.status_code == 404, error


async def an_isolated_session_runs_in_the_background(_, sandbox):
    session = await create(sandbox, "/srv/b")
    started = await done(session.run_background("echo $A; read line; echo two >&2; exit 4",
                                                opts=IsolatedRunOpts(envs={"A": "one"})))

    async def ended():
        status = await done(session.run_status(started.run_id))
        return None if status.running else status
    status = await until("its end", ended)
    assert status.exit_code == 4 and status.finished_at > status.started_at, status
    logs = await done(session.run_logs(started.run_id))
    assert (logs.text, logs.cursor) == ("one\ntwo\n", 8), logs
    logs = await done(session.run_logs(started.run_id, cursor=4))
    assert (logs.text, logs.cursor) == ("two\n", 8), logs
    await done(session.delete())


async def an_isolated_session_has_files(_, sandbox):
    session = await create(sandbox, "/srv/f", "rw")
    files = session.files
    await done(files.write_files([WriteEntry(path="/srv/f/a", data="red red"),
                                  WriteEntry(path="/srv/f/b", data=b"0123456789")]))
    assert await done(files.read_bytes("/srv/f/b", range_header="bytes=2-4")) == b"234"
    await done(files.create_directories([WriteEntry(path="/srv/f/d", mode=750)]))
    await done(files.move_files([MoveEntry(src="/srv/f/a", dest="/srv/f/d/c")]))
    await done(files.set_permissions([SetPermissionEntry(path="/srv/f/d/c", mode=600)]))
    await done(files.replace_contents([ContentReplaceEntry(
        path="/srv/f/d/c", old_content="red", new_content="blue")]))
    counts = await done(files.replace_contents_detailed([ContentReplaceEntry(
        path="/srv/f/d/c", old_content="blue", new_content="x")]))
    assert [(row.path, row.replaced_count) for row in counts] == [("/srv/f/d/c", 2)], counts
    assert await done(files.read_file("/srv/f/d/c")) == "x x"
    info = await done(files.get_file_info(["/srv/f/d/c"]))
    assert info["/srv/f/d/c"].mode == 600, info
    found = await done(files.search(SearchEntry(path="/srv/f", pattern="c*")))
    assert [row.path for row in found] == ["/srv/f/d/c"], found
    found = await done(files.list_directory(DirectoryListEntry(path="/srv/f", depth=2)))
    assert [row.path for row in found] == ["/srv/f/b", "/srv/f/d", "/srv/f/d/c"], found
    await done(files.delete_files(["/srv/f/b"]))
    await done(files.delete_directories(["/srv/f/d"]))
    assert (await done(session.run("ls"))).text == ""
    await done(session.delete())


async def a_session_for_one_run_is_gone_afterwards(_, sandbox):
    result = await done(sandbox.isolation.run_once("echo $((6 * 7)); touch x", workspace="/srv/o"))
    assert result.text == "42" and result.exit_code == 0, result
    assert await done(sandbox.isolation.list()) == []


TESTS = [
    isolation_says_what_it_can,
    an_isolated_session_runs_code,
    an_isolated_session_runs_in_the_background,
    an_isolated_session_has_files,
    a_session_for_one_run_is_gone_afterwards,
]
