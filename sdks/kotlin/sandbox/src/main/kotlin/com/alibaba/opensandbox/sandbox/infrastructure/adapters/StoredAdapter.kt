package com.alibaba.opensandbox.sandbox.infrastructure.adapters

import com.alibaba.opensandbox.sandbox.domain.exceptions.InvalidArgumentException
import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxApiException
import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxError
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.CapacitySpec
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.ImageInfo
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.PagedImageInfos
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.PagedVolumeInfos
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.PullProgress
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxImageSpec
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.ServerPool
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.VolumeInfo
import com.alibaba.opensandbox.sandbox.domain.services.Images
import com.alibaba.opensandbox.sandbox.domain.services.Pools
import com.alibaba.opensandbox.sandbox.domain.services.Volumes
import com.alibaba.opensandbox.sandbox.infrastructure.InternalOpenSandboxApi
import com.alibaba.opensandbox.sandbox.infrastructure.http.Api
import com.alibaba.opensandbox.sandbox.infrastructure.http.Call
import com.alibaba.opensandbox.sandbox.infrastructure.http.Limit
import com.alibaba.opensandbox.sandbox.infrastructure.http.Lines
import com.alibaba.opensandbox.sandbox.infrastructure.http.Runs
import com.alibaba.opensandbox.sandbox.infrastructure.wire.CreatePoolRequest
import com.alibaba.opensandbox.sandbox.infrastructure.wire.CreateVolumeRequest
import com.alibaba.opensandbox.sandbox.infrastructure.wire.ImageAuth
import com.alibaba.opensandbox.sandbox.infrastructure.wire.ImageList
import com.alibaba.opensandbox.sandbox.infrastructure.wire.NamedVolume
import com.alibaba.opensandbox.sandbox.infrastructure.wire.NamedVolumeList
import com.alibaba.opensandbox.sandbox.infrastructure.wire.Pool
import com.alibaba.opensandbox.sandbox.infrastructure.wire.PoolList
import com.alibaba.opensandbox.sandbox.infrastructure.wire.PullImage
import com.alibaba.opensandbox.sandbox.infrastructure.wire.PullImageRequest
import com.alibaba.opensandbox.sandbox.infrastructure.wire.StoredImage
import com.alibaba.opensandbox.sandbox.infrastructure.wire.UpdatePoolRequest
import kotlinx.serialization.Serializable
import kotlinx.serialization.SerializationException
import okhttp3.MediaType.Companion.toMediaType
import java.io.IOException
import java.io.InputStream
import java.io.OutputStream

internal val TAR_TYPE = "application/x-tar".toMediaType()

@Serializable
private class PullEvent(
    val type: String? = null,
    val code: String? = null,
    val message: String? = null,
    val bytesDone: Long = 0,
    val bytesTotal: Long = 0,
    val image: StoredImage? = null,
)

private fun pageQuery(
    page: Int?,
    pageSize: Int?,
): List<Pair<String, Any?>> {
    if ((page ?: 1) < 1 || (pageSize ?: 1) < 1) throw InvalidArgumentException("page and pageSize must be 1 or more")
    return listOf("page" to page, "pageSize" to pageSize)
}

@OptIn(InternalOpenSandboxApi::class)
internal class ImagesAdapter(
    private val api: Api,
) : Images {
    private fun path(image: String) = "/images/${Api.segment("image", image)}"

    override fun list(
        page: Int?,
        pageSize: Int?,
    ): PagedImageInfos {
        val found = api.ask<ImageList>(Call("GET", "/images", pageQuery(page, pageSize)))
        return PagedImageInfos(found.items.map { it.toModel() }, found.pagination.toModel())
    }

    override fun get(image: String): ImageInfo = api.ask<StoredImage>(Call("GET", path(image))).toModel()

    override fun pull(
        image: SandboxImageSpec,
        policy: String?,
        onProgress: ((PullProgress) -> Unit)?,
    ): ImageInfo {
        val auth = image.auth?.let { ImageAuth(it.username, it.password) }
        val body = Api.jsonBody(PullImageRequest(PullImage(image.image, auth), policy = policy))
        val accept = mapOf("Accept" to "text/event-stream")
        val call = Call("POST", "/images/pull", body = body, headers = accept, limit = Limit.READ)
        Lines(api, api.open(call), call).use { lines -> return follow(lines, onProgress) }
    }

    private fun follow(
        lines: Lines,
        onProgress: ((PullProgress) -> Unit)?,
    ): ImageInfo {
        while (true) {
            val event =
                try {
                    Api.json.decodeFromString(PullEvent.serializer(), lines.next() ?: throw Runs.brokenStream("the pull", null))
                } catch (e: IOException) {
                    throw Runs.brokenStream("the pull", e)
                } catch (e: SerializationException) {
                    throw Api.unexpected("the pull", e)
                }
            when (event.type) {
                "progress" -> onProgress?.invoke(PullProgress(event.message ?: "", event.bytesDone, event.bytesTotal))
                "done" -> event.image?.let { return it.toModel() }
                "error" -> {
                    val error = SandboxError(event.code ?: SandboxError.UNEXPECTED_RESPONSE, event.message)
                    throw SandboxApiException(event.message, statusCode = OK, error = error)
                }
            }
        }
    }

    override fun importArchive(
        archive: InputStream,
        name: String?,
    ): ImageInfo {
        val body = Api.streamBody(archive, TAR_TYPE)
        val call = Call("POST", "/images/import", listOf("name" to name), body, limit = Limit.READ, repeat = false)
        return api.ask<StoredImage>(call).toModel()
    }

    override fun exportArchive(
        image: String,
        into: OutputStream,
    ) {
        val call = Call("GET", path(image) + "/export", limit = Limit.READ)
        api.open(call).use { opened ->
            try {
                opened.response.body!!.byteStream().copyTo(into)
            } catch (e: IOException) {
                throw api.failed(call, e)
            }
        }
    }

    override fun delete(image: String) {
        api.send(Call("DELETE", path(image)))
    }

    private companion object {
        const val OK = 200
    }
}

@OptIn(InternalOpenSandboxApi::class)
internal class VolumesAdapter(
    private val api: Api,
) : Volumes {
    private fun path(name: String) = "/volumes/${Api.segment("name", name)}"

    override fun list(
        page: Int?,
        pageSize: Int?,
    ): PagedVolumeInfos {
        val found = api.ask<NamedVolumeList>(Call("GET", "/volumes", pageQuery(page, pageSize)))
        return PagedVolumeInfos(found.items.map { it.toModel() }, found.pagination.toModel())
    }

    override fun create(
        name: String,
        size: String?,
    ): VolumeInfo {
        val body = Api.jsonBody(CreateVolumeRequest(Api.needText("name", name), size))
        return api.ask<NamedVolume>(Call("POST", "/volumes", body = body)).toModel()
    }

    override fun get(name: String): VolumeInfo = api.ask<NamedVolume>(Call("GET", path(name))).toModel()

    override fun delete(name: String) {
        api.send(Call("DELETE", path(name)))
    }
}

@OptIn(InternalOpenSandboxApi::class)
internal class PoolsAdapter(
    private val api: Api,
) : Pools {
    private fun path(name: String) = "/pools/${Api.segment("name", name)}"

    override fun list(): List<ServerPool> = api.ask<PoolList>(Call("GET", "/pools")).items.map { it.toModel() }

    override fun create(
        name: String,
        template: String,
        capacity: CapacitySpec,
    ): ServerPool {
        val parsed =
            try {
                Api.json.parseToJsonElement(template)
            } catch (e: SerializationException) {
                throw InvalidArgumentException("template is not JSON: ${e.message}", e)
            }
        val body = Api.jsonBody(CreatePoolRequest(Api.needText("name", name), parsed, capacity.toWire()))
        return api.ask<Pool>(Call("POST", "/pools", body = body)).toModel()
    }

    override fun get(name: String): ServerPool = api.ask<Pool>(Call("GET", path(name))).toModel()

    override fun update(
        name: String,
        capacity: CapacitySpec,
    ): ServerPool {
        val body = Api.jsonBody(UpdatePoolRequest(capacity.toWire()))
        return api.ask<Pool>(Call("PUT", path(name), body = body)).toModel()
    }

    override fun delete(name: String) {
        api.send(Call("DELETE", path(name)))
    }
}
