package com.alibaba.opensandbox.sandbox.infrastructure.adapters

import com.alibaba.opensandbox.sandbox.domain.exceptions.InvalidArgumentException
import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxInternalException
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.ContentReplaceEntry
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.ContentReplaceResult
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.EntryInfo
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.FileEvent
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.MoveEntry
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.SearchEntry
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.SetPermissionEntry
import com.alibaba.opensandbox.sandbox.domain.models.execd.filesystem.WriteEntry
import com.alibaba.opensandbox.sandbox.domain.services.EventStream
import com.alibaba.opensandbox.sandbox.domain.services.Filesystem
import com.alibaba.opensandbox.sandbox.infrastructure.InternalOpenSandboxApi
import com.alibaba.opensandbox.sandbox.infrastructure.http.Api
import com.alibaba.opensandbox.sandbox.infrastructure.http.Call
import com.alibaba.opensandbox.sandbox.infrastructure.http.Limit
import com.alibaba.opensandbox.sandbox.infrastructure.http.Runs
import com.alibaba.opensandbox.sandbox.infrastructure.wire.FileInfo
import com.alibaba.opensandbox.sandbox.infrastructure.wire.Move
import com.alibaba.opensandbox.sandbox.infrastructure.wire.Permission
import com.alibaba.opensandbox.sandbox.infrastructure.wire.Replacement
import com.alibaba.opensandbox.sandbox.infrastructure.wire.UploadMetadata
import com.alibaba.opensandbox.sandbox.infrastructure.wire.WatchEvent
import kotlinx.serialization.Serializable
import okhttp3.MediaType.Companion.toMediaType
import okhttp3.MultipartBody
import okhttp3.RequestBody
import okio.BufferedSink
import java.io.InputStream
import java.nio.charset.Charset
import java.nio.file.Path

@Serializable
private class Replaced(
    val replacedCount: Int = 0,
)

/** `prefix` leads to the files of a user. */
@OptIn(InternalOpenSandboxApi::class)
internal class FilesystemAdapter(
    private val api: Api,
    private val prefix: String = "",
) : Filesystem {
    private fun call(
        method: String,
        path: String,
        query: List<Pair<String, Any?>> = emptyList(),
        body: RequestBody? = null,
    ) = Call(method, prefix + path, query, body)

    private fun FileInfo.toModel() =
        EntryInfo(
            path = path,
            mode = mode?.toInt() ?: 0,
            owner = owner ?: "",
            group = group ?: "",
            size = size ?: 0,
            modifiedAt = timeOf(modifiedAt),
            createdAt = timeOf(createdAt),
            type = type,
        )

    override fun readStream(
        path: String,
        range: String?,
        offset: Int?,
        limit: Int?,
    ): InputStream {
        if (range != null && (offset != null || limit != null)) {
            throw InvalidArgumentException("range goes with neither offset nor limit")
        }
        val query = listOf("path" to Api.needText("path", path), "offset" to offset, "limit" to limit)
        return Download(api, "$prefix/files/download", query, range)
    }

    override fun write(entries: List<WriteEntry>) {
        if (entries.isEmpty()) return
        val form = MultipartBody.Builder().setType(MultipartBody.FORM)
        for (entry in entries) {
            val metadata = UploadMetadata(entry.path, entry.owner, entry.group, entry.mode.toLong())
            form.addFormDataPart("metadata", "metadata", Api.jsonBody(metadata))
            form.addFormDataPart("file", entry.path, dataOf(entry))
        }
        val parts = form.build()
        api.send(Call("POST", "$prefix/files/upload", body = parts, limit = Limit.READ, repeat = false))
    }

    private fun dataOf(entry: WriteEntry): RequestBody =
        when (val data = entry.data) {
            null -> Api.bytesBody(ByteArray(0), BYTES_TYPE)
            is String -> Api.bytesBody(data.toByteArray(Charset.forName(entry.encoding)), BYTES_TYPE)
            is ByteArray -> Api.bytesBody(data, BYTES_TYPE)
            is InputStream -> Api.streamBody(data, BYTES_TYPE)
            else -> throw InvalidArgumentException("data of ${entry.path} is a ${data.javaClass.name}")
        }

    override fun createDirectories(entries: List<WriteEntry>) {
        val body = entries.associate { it.path to Permission(it.owner, it.group, it.mode.toLong()) }
        api.send(call("POST", "/directories", body = Api.jsonBody(body)))
    }

    override fun deleteFiles(paths: List<String>) {
        api.send(call("DELETE", "/files", listOf("path" to paths)))
    }

    override fun deleteDirectories(paths: List<String>) {
        api.send(call("DELETE", "/directories", listOf("path" to paths)))
    }

    override fun listDirectory(
        path: String,
        depth: Int?,
    ): List<EntryInfo> {
        val query = listOf("path" to Api.needText("path", path), "depth" to depth)
        return api.ask<List<FileInfo>>(call("GET", "/directories/list", query)).map { it.toModel() }
    }

    override fun moveFiles(entries: List<MoveEntry>) {
        api.send(call("POST", "/files/mv", body = Api.jsonBody(entries.map { Move(it.src, it.dest) })))
    }

    override fun setPermissions(entries: List<SetPermissionEntry>) {
        val body = entries.associate { it.path to Permission(it.owner, it.group, it.mode.toLong()) }
        api.send(call("POST", "/files/permissions", body = Api.jsonBody(body)))
    }

    private fun replacements(entries: List<ContentReplaceEntry>) =
        Api.jsonBody(entries.associate { it.path to Replacement(it.oldContent, it.newContent) })

    override fun replaceContents(entries: List<ContentReplaceEntry>) {
        api.send(call("POST", "/files/replace", body = replacements(entries)))
    }

    override fun replaceContentsDetailed(entries: List<ContentReplaceEntry>): List<ContentReplaceResult> {
        val call = call("POST", "/files/replace", listOf("verbose" to true), replacements(entries))
        return api.ask<Map<String, Replaced>>(call).map { (path, found) -> ContentReplaceResult(path, found.replacedCount) }
    }

    override fun search(entry: SearchEntry): List<EntryInfo> {
        val query = listOf("path" to entry.path, "pattern" to entry.pattern)
        return api.ask<List<FileInfo>>(call("GET", "/files/search", query)).map { it.toModel() }
    }

    override fun readFileInfo(paths: List<String>): Map<String, EntryInfo> =
        api.ask<Map<String, FileInfo>>(call("GET", "/files/info", listOf("path" to paths))).mapValues { it.value.toModel() }

    override fun watch(
        path: String,
        recursive: Boolean,
    ): EventStream<FileEvent> {
        val query = listOf("path" to Api.needText("path", path), "recursive" to recursive)
        val call = Call("GET", "$prefix/directories/watch", query, limit = Limit.READ)
        return Runs.endless(api, call, "watching $path") { line, lines ->
            val event = Api.json.decodeFromString(WatchEvent.serializer(), line)
            when (event.type) {
                "init" -> null
                "ping" -> null.also { lines.sawPing() }
                "error" -> throw SandboxInternalException("watching $path: ${event.error?.evalue ?: "failed"}")
                else -> FileEvent(event.type, event.path, event.from, event.directory ?: false, event.timestamp ?: 0)
            }
        }
    }

    override fun downloadArchive(path: String): InputStream =
        Download(api, "$prefix/directories/download", listOf("path" to Api.needText("path", path)), null, canResume = false)

    override fun uploadArchive(
        path: String,
        archive: InputStream,
        owners: Boolean,
    ) = upload(path, Api.streamBody(archive, TAR_TYPE), owners)

    private fun upload(
        path: String,
        body: RequestBody,
        owners: Boolean,
    ) {
        val query = listOf("path" to Api.needText("path", path), "owners" to true.takeIf { owners })
        api.send(Call("POST", "$prefix/directories/upload", query, body, limit = Limit.READ, repeat = false))
    }

    override fun uploadDirectory(
        local: Path,
        path: String,
    ) {
        val body =
            object : RequestBody() {
                override fun contentType() = TAR_TYPE

                override fun isOneShot() = true

                override fun writeTo(sink: BufferedSink) = Tar.pack(local, sink.outputStream())
            }
        upload(path, body, false)
    }

    override fun downloadDirectory(
        path: String,
        local: Path,
    ) = downloadArchive(path).use { Tar.unpack(it, local) }

    override fun asUser(
        uid: Int,
        gid: Int,
    ): Filesystem {
        if (uid < 0 || gid < 0) throw InvalidArgumentException("uid and gid must not be negative")
        return FilesystemAdapter(api, "/v1/filesystem/$uid/$gid")
    }

    private companion object {
        val BYTES_TYPE = "application/octet-stream".toMediaType()
    }
}
