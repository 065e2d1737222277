"""sdk_files.py - what programs do with `sandbox.files`."""
import io
import os
from datetime import datetime, timedelta, timezone

from opensandbox.exceptions import SandboxApiException
from opensandbox.models import filesystem
from opensandbox.models.filesystem import (ContentReplaceEntry, MoveEntry, SearchEntry,
                                           SetPermissionEntry, WriteEntry)

from sdk_client import VERSION, done, raises
from sdk_commands import run
from tap import Skip


def needs(name):
    """The SDK's own list of what it can do, by the names of its models."""
    if not hasattr(filesystem, name):
        raise Skip(f"opensandbox {VERSION} has no {name}")
    return getattr(filesystem, name)


async def text_is_written_and_read(_, sandbox):
    text = "first line\nzweite Zeile: äöü 世界\n"
    await done(sandbox.files.write_file("/tmp/f/text", text))
    assert await done(sandbox.files.read_file("/tmp/f/text")) == text
    assert (await run(sandbox, "head -n 1 /tmp/f/text")).text == "first line"


async def bytes_are_written_and_read(_, sandbox):
    data = bytes(range(256)) * 5 + b"\r\n--boundary\r\n"
    await done(sandbox.files.write_file("/tmp/f/bytes", data))
    assert await done(sandbox.files.read_bytes("/tmp/f/bytes")) == data
    await done(sandbox.files.write_file("/tmp/f/bytes", b""))
    assert await done(sandbox.files.read_bytes("/tmp/f/bytes")) == b""


async def a_stream_of_megabytes_goes_both_ways(client, sandbox):
    data = os.urandom(8 * 1024 * 1024 + 17)
    await done(sandbox.files.write_file("/tmp/f/large", io.BytesIO(data)))
    chunks = await client.collect(sandbox.files.read_bytes_stream("/tmp/f/large"))
    assert b"".join(chunks) == data and len(chunks) > 1


async def a_range_is_read(_, sandbox):
    await done(sandbox.files.write_file("/tmp/f/range", "0123456789"))
    for header, want in (("bytes=2-4", "234"), ("bytes=7-", "789"), ("bytes=-2", "89")):
        got = await done(sandbox.files.read_file("/tmp/f/range", range_header=header))
        assert got == want, (header, got)
    error = await raises(SandboxApiException, lambda: sandbox.files.read_file(
        "/tmp/f/range", range_header="bytes=50-60"))
    assert error.status_code == 416, error


async def some_lines_are_read(_, sandbox):
    needs("DirectoryListEntry")  # line ranges came with it
    await done(sandbox.files.write_file("/tmp/f/lines", "one\ntwo\nthree\nfour\n"))
    got = await done(sandbox.files.read_file("/tmp/f/lines", offset=2, limit=2))
    assert got == "two\nthree", got


async def many_files_are_written_at_once(_, sandbox):
    entries = [WriteEntry(path=f"/tmp/f/many/{n}.txt", data=f"file {n}", mode=600 + n % 2 * 44)
               for n in range(40)]
    await done(sandbox.files.write_files(entries))
    info = await done(sandbox.files.get_file_info([entry.path for entry in entries]))
    assert len(info) == 40
    for entry in entries:
        assert info[entry.path].mode == entry.mode, info[entry.path]
        assert info[entry.path].size == len(entry.data)


async def info_tells_what_a_file_is(_, sandbox):
    await done(sandbox.files.write_file("/tmp/f/info", "12345", mode=640))
    info = (await done(sandbox.files.get_file_info(["/tmp/f/info"])))["/tmp/f/info"]
    assert (info.path, info.size, info.mode) == ("/tmp/f/info", 5, 640), info
    assert (info.owner, info.group) == ("root", "root"), info
    age = datetime.now(timezone.utc) - info.modified_at
    assert timedelta(seconds=-5) < age < timedelta(minutes=1), info


async def permissions_and_owners_are_set(_, sandbox):
    await done(sandbox.files.write_file("/tmp/f/perm", "x", mode=600, owner="nobody"))
    info = (await done(sandbox.files.get_file_info(["/tmp/f/perm"])))["/tmp/f/perm"]
    assert (info.mode, info.owner) == (600, "nobody"), info
    await done(sandbox.files.set_permissions(
        [SetPermissionEntry(path="/tmp/f/perm", mode=754, owner="root", group="root")]))
    assert (await run(sandbox, "stat -c '%a %U %G' /tmp/f/perm")).text == "754 root root"


async def files_are_moved_and_deleted(_, sandbox):
    await done(sandbox.files.write_files([WriteEntry(path="/tmp/f/a", data="a"),
                                          WriteEntry(path="/tmp/f/b", data="b")]))
    await done(sandbox.files.move_files([MoveEntry(src="/tmp/f/a", dest="/tmp/f/moved/a"),
                                         MoveEntry(src="/tmp/f/b", dest="/tmp/f/moved/c")]))
    assert (await run(sandbox, "ls /tmp/f/moved; ls /tmp/f/a")).text == "a\nc"
    await done(sandbox.files.delete_files(["/tmp/f/moved/a", "/tmp/f/moved/c"]))
    assert (await run(sandbox, "ls /tmp/f/moved")).text == ""


async def directories_are_made_and_deleted(_, sandbox):
    await done(sandbox.files.create_directories([WriteEntry(path="/tmp/f/x/y/z", mode=750),
                                                 WriteEntry(path="/tmp/f/w", mode=700)]))
    assert (await run(sandbox, "stat -c '%F %a' /tmp/f/x/y/z /tmp/f/w")).text == \
        "directory 750\ndirectory 700"
    await done(sandbox.files.write_file("/tmp/f/x/y/z/inside", "x"))
    await done(sandbox.files.delete_directories(["/tmp/f/x", "/tmp/f/w"]))
    assert (await run(sandbox, "ls -d /tmp/f/x /tmp/f/w")).exit_code != 0


async def directories_are_listed(_, sandbox):
    entry = needs("DirectoryListEntry")
    await done(sandbox.files.write_files([WriteEntry(path="/tmp/f/list/a", data="a"),
                                          WriteEntry(path="/tmp/f/list/d/b", data="bb")]))
    found = await done(sandbox.files.list_directory(entry(path="/tmp/f/list")))
    assert [(e.path, e.entry_type) for e in found] == \
        [("/tmp/f/list/a", "file"), ("/tmp/f/list/d", "directory")], found
    found = await done(sandbox.files.list_directory(entry(path="/tmp/f/list", depth=2)))
    assert [e.path for e in found][-1] == "/tmp/f/list/d/b" and len(found) == 3, found


async def files_are_searched_by_pattern(_, sandbox):
    await done(sandbox.files.write_files(
        [WriteEntry(path=f"/tmp/f/search/{name}", data="x")
         for name in ("one.py", "two.txt", "deep/three.py", "deep/deeper/four.py")]))
    found = await done(sandbox.files.search(SearchEntry(path="/tmp/f/search", pattern="*.py")))
    assert sorted(entry.path for entry in found) == [
        "/tmp/f/search/deep/deeper/four.py", "/tmp/f/search/deep/three.py",
        "/tmp/f/search/one.py"], found
    assert await done(sandbox.files.search(
        SearchEntry(path="/tmp/f/search", pattern="*.rs"))) == []


async def contents_are_replaced(_, sandbox):
    await done(sandbox.files.write_file("/tmp/f/replace", "red green red", mode=640))
    await done(sandbox.files.replace_contents([ContentReplaceEntry(
        path="/tmp/f/replace", old_content="red", new_content="blue")]))
    assert await done(sandbox.files.read_file("/tmp/f/replace")) == "blue green blue"
    info = (await done(sandbox.files.get_file_info(["/tmp/f/replace"])))["/tmp/f/replace"]
    assert info.mode == 640, info


async def replacements_are_counted(_, sandbox):
    needs("ContentReplaceResult")
    await done(sandbox.files.write_file("/tmp/f/count", "aXbXc"))
    for old, count in (("X", 2), ("nothing of the kind", 0)):
        result = await done(sandbox.files.replace_contents_detailed([ContentReplaceEntry(
            path="/tmp/f/count", old_content=old, new_content="-")]))
        assert [(r.path, r.replaced_count) for r in result] == [("/tmp/f/count", count)], result


async def names_may_hold_anything(_, sandbox):
    for name in ("with space", "ünïcode-世界", "quote'd", "a+b%20&c=d;e#f?"):
        path = f"/tmp/f/names/{name}"
        await done(sandbox.files.write_file(path, name))
        assert await done(sandbox.files.read_file(path)) == name, path
        assert path in await done(sandbox.files.get_file_info([path]))
        await done(sandbox.files.delete_files([path]))
    assert (await run(sandbox, "ls -A /tmp/f/names")).text == ""


async def a_missing_file_is_404(_, sandbox):
    for call in (lambda: sandbox.files.read_file("/tmp/f/not-there"),
                 lambda: sandbox.files.get_file_info(["/tmp/f/not-there"]),
                 lambda: sandbox.files.move_files([MoveEntry(src="/tmp/f/not-there",
                                                             dest="/tmp/f/x")])):
        error = await raises(SandboxApiException, call)
        assert error.status_code == 404, error
    error = await raises(SandboxApiException,
                         lambda: sandbox.files.get_file_info(["/tmp/f/not-there"]))
    assert error.error.code == "FILE_NOT_FOUND", error


def as_user(sandbox, uid, gid):
    if not hasattr(sandbox, "files_with_identity"):
        raise Skip(f"opensandbox {VERSION} has no files_with_identity")
    return sandbox.files_with_identity(uid, gid)


async def files_are_used_as_another_user(client, sandbox):
    entry = needs("DirectoryListEntry")
    files = as_user(sandbox, 1234, 2345)
    await run(sandbox, "mkdir -m 777 /tmp/f/id; echo x > /tmp/f/secret; chmod 600 /tmp/f/secret; "
                       "ln -s /tmp/f/secret /tmp/f/id/link")
    await done(files.write_file("/tmp/f/id/sub/a", "one one", mode=640))
    assert (await run(sandbox, "stat -c '%u %g %a' /tmp/f/id/sub /tmp/f/id/sub/a")).text == \
        "1234 2345 755\n1234 2345 640"
    assert await done(files.read_file("/tmp/f/id/sub/a")) == "one one"
    assert b"".join(await client.collect(files.read_bytes_stream("/tmp/f/id/sub/a"))) == b"one one"
    result = await done(files.replace_contents_detailed([ContentReplaceEntry(
        path="/tmp/f/id/sub/a", old_content="one", new_content="1")]))
    assert [r.replaced_count for r in result] == [2], result
    await done(files.set_permissions([SetPermissionEntry(path="/tmp/f/id/sub/a", mode=600)]))
    await done(files.move_files([MoveEntry(src="/tmp/f/id/sub/a", dest="/tmp/f/id/b")]))
    info = (await done(files.get_file_info(["/tmp/f/id/b"])))["/tmp/f/id/b"]
    assert (info.owner, info.group, info.mode) == ("1234", "2345", 600), info
    await done(files.create_directories([WriteEntry(path="/tmp/f/id/d", mode=700)]))
    found = await done(files.list_directory(entry(path="/tmp/f/id")))
    assert [e.path for e in found] == [f"/tmp/f/id/{n}" for n in ("b", "d", "link", "sub")], found
    found = await done(files.search(SearchEntry(path="/tmp/f/id", pattern="b")))
    assert [e.path for e in found] == ["/tmp/f/id/b"], found
    await done(files.delete_directories(["/tmp/f/id/d"]))
    await done(files.delete_files(["/tmp/f/id/b"]))
    for call in (lambda: files.read_file("/tmp/f/secret"),
                 lambda: files.read_file("/tmp/f/id/link"),
                 lambda: files.write_file("/etc/new", "x"),
                 lambda: files.write_file("/tmp/f/id/c", "x", owner="root"),
                 lambda: files.delete_files(["/tmp/f/secret"])):
        error = await raises(SandboxApiException, call)
        assert (error.status_code, error.error.code) == (500, "RUNTIME_ERROR"), error
    assert await done(sandbox.files.read_file("/tmp/f/secret")) == "x\n", "the other is as before"


async def an_identity_that_cannot_be_had_is_503(_, sandbox):
    files = as_user(sandbox, 4294967294, 4294967294)  # a sandbox has the first 65,536
    error = await raises(SandboxApiException, lambda: files.read_file("/etc/passwd"))
    assert (error.status_code, error.error.code) == (503, "NOT_SUPPORTED"), error
    assert await done(as_user(sandbox, 0, 0).read_file("/etc/passwd")) == \
        await done(sandbox.files.read_file("/etc/passwd"))


TESTS = [
    text_is_written_and_read,
    bytes_are_written_and_read,
    a_stream_of_megabytes_goes_both_ways,
    a_range_is_read,
    some_lines_are_read,
    many_files_are_written_at_once,
    info_tells_what_a_file_is,
    permissions_and_owners_are_set,
    files_are_moved_and_deleted,
    directories_are_made_and_deleted,
    directories_are_listed,
    files_are_searched_by_pattern,
    contents_are_replaced,
    replacements_are_counted,
    names_may_hold_anything,
    a_missing_file_is_404,
    files_are_used_as_another_user,
    an_identity_that_cannot_be_had_is_503,
]
