"""Files of a sandbox."""

from __future__ import annotations

import os
import tarfile
import tempfile
from contextlib import aclosing
from typing import Any

from opensandbox._async import io
from opensandbox._async.http import UNLIMITED, Http
from opensandbox._async.io import Stream
from opensandbox._async.lifecycle import parsed
from opensandbox._core import forms
from opensandbox._core.convert import dense
from opensandbox._core.errors import need_text
from opensandbox._core.events import ended_without_last_event, error_of
from opensandbox.exceptions import (
    InvalidArgumentException,
    SandboxApiException,
    SandboxConnectionException,
    SandboxError,
    SandboxInternalException,
)
from opensandbox.models.filesystem import (
    ContentReplaceEntry,
    ContentReplaceResult,
    DirectoryListEntry,
    EntryInfo,
    FileEvent,
    MoveEntry,
    SearchEntry,
    SetPermissionEntry,
    WriteEntry,
)

RESUMES_MAX = 5  # of one download, without a byte in between
TAR = {"Content-Type": "application/x-tar"}


def _read_query(path: str, offset: int | None, limit: int | None) -> dict[str, Any]:
    return {"path": need_text(path, "path"), "offset": offset, "limit": limit}


class Filesystem:
    """Reads, writes and looks after files."""

    def __init__(self, http: Http) -> None:
        self._http = http

    # --- reading ---

    async def read_file(
        self,
        path: str,
        *,
        encoding: str = "utf-8",
        range_header: str | None = None,
        offset: int | None = None,
        limit: int | None = None,
    ) -> str:
        """A file as text: all of it, a range of bytes, or `limit` lines from line `offset` on."""
        data = await self.read_bytes(path, range_header=range_header, offset=offset, limit=limit)
        return data.decode(encoding)

    async def read_bytes(
        self,
        path: str,
        *,
        range_header: str | None = None,
        offset: int | None = None,
        limit: int | None = None,
    ) -> bytes:
        """A file as bytes."""
        pieces = []
        stream = self._download(path, range_header, offset, limit)
        async with aclosing(stream):
            async for piece in stream:
                pieces.append(piece)
        return b"".join(pieces)

    async def read_bytes_stream(
        self,
        path: str,
        *,
        chunk_size: int = 64 * 1024,
        range_header: str | None = None,
        offset: int | None = None,
        limit: int | None = None,
    ) -> Stream[bytes]:
        """A file in pieces of at most `chunk_size` bytes. An error comes with this call, not with
        the first piece."""
        if chunk_size <= 0:
            raise InvalidArgumentException("chunk_size must be positive")
        stream = self._download(path, range_header, offset, limit)
        first = await anext(stream, b"")
        return _pieces(first, stream, chunk_size)

    async def _download(
        self, path: str, range_header: str | None, offset: int | None, limit: int | None
    ) -> Stream[bytes]:
        """The bytes of a file. A connection that breaks is made again, from the next byte on."""
        if range_header is not None and (offset is not None or limit is not None):
            raise InvalidArgumentException("range_header and lines exclude each other")
        query = _read_query(path, offset, limit)
        done, failures, headers = 0, 0, {"Range": range_header} if range_header else {}
        resumable = not range_header and offset is None and limit is None
        timeout = self._http.link.config.request_timeout.total_seconds()
        while True:
            try:
                async with self._http.stream(
                    "GET", "/files/download", query=query, headers=headers, timeout=timeout
                ) as response:
                    if done and response.status_code != 206:
                        raise SandboxInternalException(f"{path}: the download cannot go on")
                    async for data in response.aiter_raw():
                        done, failures = done + len(data), 0
                        yield data
                return
            except SandboxConnectionException:
                failures += 1
                if not resumable or done == 0 or failures > RESUMES_MAX:
                    raise
                headers = {"Range": f"bytes={done}-"}

    # --- writing ---

    async def write_files(self, entries: list[WriteEntry]) -> None:
        """Writes files in one request. Content that is read from files or iterators is sent as it
        is read."""
        if not entries:
            return
        boundary = forms.new_boundary()
        ready = [forms.whole(entry) for entry in entries]
        content: Any
        if all(data is not None for data in ready) and sum(len(d or b"") for d in ready) < 1 << 20:
            parts = []
            for n, entry in enumerate(entries):
                parts += [forms.head_of(entry, boundary, n == 0), ready[n] or b""]
            content = b"".join([*parts, forms.tail_of(boundary)])
        else:
            content = _form(entries, boundary)
        await self._http.send(
            "POST",
            "/files/upload",
            content=content,
            headers={"Content-Type": f"multipart/form-data; boundary={boundary}"},
            timeout=UNLIMITED,
        )

    async def write_file(
        self,
        path: str,
        data: Any,
        *,
        encoding: str = "utf-8",
        mode: int = 755,
        owner: str | None = None,
        group: str | None = None,
    ) -> None:
        """Writes a file: text, bytes, a file object, or an iterator of bytes."""
        entry = WriteEntry(
            path=path, data=data, mode=mode, owner=owner, group=group, encoding=encoding
        )
        await self.write_files([entry])

    async def create_directories(self, entries: list[WriteEntry]) -> None:
        """Makes directories, and those above them."""
        body = {e.path: dense(mode=e.mode, owner=e.owner, group=e.group) for e in entries}
        await self._http.send("POST", "/directories", body=body)

    async def delete_files(self, paths: list[str]) -> None:
        await self._http.send("DELETE", "/files", query={"path": paths})

    async def delete_directories(self, paths: list[str]) -> None:
        """Removes directories with all that is in them."""
        await self._http.send("DELETE", "/directories", query={"path": paths})

    async def move_files(self, entries: list[MoveEntry]) -> None:
        body = [{"src": entry.src, "dest": entry.dest} for entry in entries]
        await self._http.send("POST", "/files/mv", body=body)

    async def set_permissions(self, entries: list[SetPermissionEntry]) -> None:
        body = {e.path: dense(mode=e.mode, owner=e.owner, group=e.group) for e in entries}
        await self._http.send("POST", "/files/permissions", body=body)

    async def replace_contents(self, entries: list[ContentReplaceEntry]) -> None:
        await self._http.send("POST", "/files/replace", body=_replacements(entries))

    async def replace_contents_detailed(
        self, entries: list[ContentReplaceEntry]
    ) -> list[ContentReplaceResult]:
        """Replaces text, and says how often."""
        answer = await self._http.json(
            "POST", "/files/replace", query={"verbose": "true"}, body=_replacements(entries)
        )
        return [
            ContentReplaceResult(path=path, replaced_count=row.get("replacedCount", 0))
            for path, row in answer.items()
        ]

    # --- looking ---

    async def search(self, entry: SearchEntry) -> list[EntryInfo]:
        """Files below a directory whose names match a pattern."""
        query = {"path": entry.path, "pattern": entry.pattern}
        answer = await self._http.json("GET", "/files/search", query=query)
        return [parsed(EntryInfo, row) for row in answer or []]

    async def list_directory(self, entry: DirectoryListEntry) -> list[EntryInfo]:
        query = {"path": entry.path, "depth": entry.depth}
        answer = await self._http.json("GET", "/directories/list", query=query)
        return [parsed(EntryInfo, row) for row in answer or []]

    async def get_file_info(self, paths: list[str]) -> dict[str, EntryInfo]:
        answer = await self._http.json("GET", "/files/info", query={"path": paths})
        return {path: parsed(EntryInfo, row) for path, row in (answer or {}).items()}

    async def watch(self, path: str, *, recursive: bool = False) -> Stream[FileEvent]:
        """What happens to the files of a directory, until the caller stops. Watching begins with
        the first step of the iterator."""
        query = {
            "path": need_text(path, "path"),
            "recursive": "true" if recursive else "false",
        }
        batches = self._http.events("GET", "/directories/watch", query=query)
        try:
            async with aclosing(batches):
                async for batch in batches:
                    for event in batch:
                        if event.get("type") == "error":
                            error = error_of(event)
                            raise SandboxApiException(
                                f"watch {path}: {error.value}",
                                status_code=200,
                                error=SandboxError(error.name, error.value),
                            )
                        if event.get("type") not in ("init", "ping"):
                            yield parsed(FileEvent, event)
        except SandboxInternalException as error:
            raise ended_without_last_event(f"watch {path}", error) from error
        raise ended_without_last_event(f"watch {path}")

    # --- directories with all that is in them ---

    async def upload_directory(self, local: str | os.PathLike[str], path: str) -> None:
        """Copies a local directory into one of the sandbox."""
        with tempfile.TemporaryFile() as archive:
            await io.blocking(_pack, os.fspath(local), archive)
            archive.seek(0)
            await self._http.send(
                "POST",
                "/directories/upload",
                query={"path": need_text(path, "path")},
                content=_file_pieces(archive),
                headers=TAR,
                timeout=UNLIMITED,
            )

    async def download_directory(self, path: str, local: str | os.PathLike[str]) -> None:
        """Copies a directory of the sandbox into a local one. Entries that would leave it are
        refused."""
        with tempfile.TemporaryFile() as archive:
            query = {"path": need_text(path, "path")}
            async with self._http.stream("GET", "/directories/download", query=query) as response:
                async for data in response.aiter_raw():
                    archive.write(data)
            archive.seek(0)
            await io.blocking(_unpack, archive, os.fspath(local))


async def _pieces(
    first: bytes, stream: Stream[bytes], chunk_size: int
) -> Stream[bytes]:
    async with aclosing(stream):
        for begin in range(0, len(first), chunk_size):
            yield first[begin : begin + chunk_size]
        async for data in stream:
            for begin in range(0, len(data), chunk_size):
                yield data[begin : begin + chunk_size]


async def _form(entries: list[WriteEntry], boundary: str) -> Stream[bytes]:
    """The body of an upload, piece by piece."""
    for n, entry in enumerate(entries):
        yield forms.head_of(entry, boundary, n == 0)
        data = forms.whole(entry)
        if data is not None:
            for begin in range(0, len(data), forms.PIECE_BYTES):
                yield data[begin : begin + forms.PIECE_BYTES]
        elif hasattr(entry.data, "__aiter__"):
            async for piece in entry.data:
                yield piece
        else:
            reading = forms.pieces(entry)
            while piece := await io.blocking(next, reading, b""):
                yield piece
    yield forms.tail_of(boundary)


async def _file_pieces(file: Any) -> Stream[bytes]:
    while piece := await io.blocking(file.read, forms.PIECE_BYTES):
        yield piece


def _replacements(entries: list[ContentReplaceEntry]) -> dict[str, dict[str, str]]:
    return {e.path: {"old": e.old_content, "new": e.new_content} for e in entries}


def _pack(local: str, archive: Any) -> None:
    with tarfile.open(fileobj=archive, mode="w", format=tarfile.PAX_FORMAT) as tar:
        tar.add(local, arcname=".")


def _unpack(archive: Any, local: str) -> None:
    os.makedirs(local, exist_ok=True)
    with tarfile.open(fileobj=archive, mode="r") as tar:
        if hasattr(tarfile, "data_filter"):
            tar.extractall(local, filter="data")
            return
        root = os.path.realpath(local)
        for member in tar.getmembers():  # an old Python: only plain files and directories
            target = os.path.realpath(os.path.join(root, member.name))
            if os.path.commonpath([root, target]) == root and (member.isfile() or member.isdir()):
                tar.extract(member, root)
