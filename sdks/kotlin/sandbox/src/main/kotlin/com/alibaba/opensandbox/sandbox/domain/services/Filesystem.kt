package com.alibaba.opensandbox.sandbox.domain.services

import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.ContentReplaceEntry
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.ContentReplaceResult
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.EntryInfo
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.FileEvent
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.MoveEntry
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.SearchEntry
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.SetPermissionEntry
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.WriteEntry
import java.io.InputStream
import java.nio.charset.Charset
import java.nio.file.Path

/**
 * Files and directories of a sandbox. Of a read, `range` is as `bytes=0-99`; `offset` is the first line,
 * from 1, and `limit` the number of lines, which do not go with a range.
 */
interface Filesystem {
    fun readFile(
        path: String,
        encoding: String = "UTF-8",
        range: String? = null,
        offset: Int? = null,
        limit: Int? = null,
    ): String = String(readByteArray(path, range, offset, limit), Charset.forName(encoding))

    fun readFile(path: String): String = readFile(path, "UTF-8", null, null, null)

    fun readByteArray(
        path: String,
        range: String? = null,
        offset: Int? = null,
        limit: Int? = null,
    ): ByteArray = readStream(path, range, offset, limit).use { it.readBytes() }

    fun readByteArray(path: String): ByteArray = readByteArray(path, null, null, null)

    /** A connection that breaks is taken up where it broke. */
    fun readStream(
        path: String,
        range: String? = null,
        offset: Int? = null,
        limit: Int? = null,
    ): InputStream

    fun readStream(path: String): InputStream = readStream(path, null, null, null)

    /** All of them in one request. */
    fun write(entries: List<WriteEntry>)

    fun writeFile(entry: WriteEntry) = write(listOf(entry))

    fun writeFile(
        path: String,
        data: String,
    ) = writeFile(
        WriteEntry
            .builder()
            .path(path)
            .data(data)
            .build(),
    )

    fun writeFile(
        path: String,
        data: ByteArray,
    ) = writeFile(
        WriteEntry
            .builder()
            .path(path)
            .data(data)
            .build(),
    )

    fun writeFile(
        path: String,
        data: InputStream,
    ) = writeFile(
        WriteEntry
            .builder()
            .path(path)
            .data(data)
            .build(),
    )

    fun createDirectories(entries: List<WriteEntry>)

    fun deleteFiles(paths: List<String>)

    fun deleteDirectories(paths: List<String>)

    fun listDirectory(
        path: String,
        depth: Int? = null,
    ): List<EntryInfo>

    fun listDirectory(path: String): List<EntryInfo> = listDirectory(path, null)

    fun moveFiles(entries: List<MoveEntry>)

    fun setPermissions(entries: List<SetPermissionEntry>)

    fun replaceContents(entries: List<ContentReplaceEntry>)

    fun replaceContentsDetailed(entries: List<ContentReplaceEntry>): List<ContentReplaceResult>

    fun search(entry: SearchEntry): List<EntryInfo>

    fun readFileInfo(paths: List<String>): Map<String, EntryInfo>

    /** Changes of a directory; the end of the stream is an error. */
    fun watch(
        path: String,
        recursive: Boolean = false,
    ): EventStream<FileEvent>

    /** A directory as a tar archive. */
    fun downloadArchive(path: String): InputStream

    /** Unpacks a tar archive below a directory; [owners]: files belong to those in the archive. */
    fun uploadArchive(
        path: String,
        archive: InputStream,
        owners: Boolean = false,
    )

    /** Copies a local directory, and what is below it, into the sandbox. */
    fun uploadDirectory(
        local: Path,
        path: String,
    )

    /** Copies a directory of the sandbox, and what is below it, into a local one. */
    fun downloadDirectory(
        path: String,
        local: Path,
    )

    /** The same files with the rights of a user. */
    fun asUser(
        uid: Int,
        gid: Int,
    ): Filesystem
}
