package com.alibaba.opensandbox.sandbox.infrastructure.adapters

import com.alibaba.opensandbox.sandbox.domain.exceptions.SandboxInternalException
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.CapacitySpec
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.Credential
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.CredentialAuth
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.CredentialAuthMetadata
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.CredentialBinding
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.CredentialBindingMetadata
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.CredentialMatch
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.CredentialMetadata
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.ImageInfo
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.NetworkPolicy
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.NetworkRule
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.PaginationInfo
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.PlatformSpec
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxImageSpec
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxInfo
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxStatus
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.ServerPool
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SnapshotInfo
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SnapshotStatus
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.Volume
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.VolumeInfo
import java.time.DateTimeException
import java.time.OffsetDateTime
import java.util.Locale
import com.alibaba.opensandbox.sandbox.infrastructure.wire.Auth as WireAuth
import com.alibaba.opensandbox.sandbox.infrastructure.wire.Binding as WireBinding
import com.alibaba.opensandbox.sandbox.infrastructure.wire.BindingInfo as WireBindingInfo
import com.alibaba.opensandbox.sandbox.infrastructure.wire.CapacitySpec as WireCapacitySpec
import com.alibaba.opensandbox.sandbox.infrastructure.wire.Credential as WireCredential
import com.alibaba.opensandbox.sandbox.infrastructure.wire.CredentialInfo as WireCredentialInfo
import com.alibaba.opensandbox.sandbox.infrastructure.wire.CredentialSource as WireCredentialSource
import com.alibaba.opensandbox.sandbox.infrastructure.wire.HeaderCredential as WireHeaderCredential
import com.alibaba.opensandbox.sandbox.infrastructure.wire.HostVolume as WireHostVolume
import com.alibaba.opensandbox.sandbox.infrastructure.wire.Image as WireImage
import com.alibaba.opensandbox.sandbox.infrastructure.wire.ImageAuth as WireImageAuth
import com.alibaba.opensandbox.sandbox.infrastructure.wire.Match as WireMatch
import com.alibaba.opensandbox.sandbox.infrastructure.wire.NamedVolume as WireNamedVolume
import com.alibaba.opensandbox.sandbox.infrastructure.wire.NetworkPolicy as WireNetworkPolicy
import com.alibaba.opensandbox.sandbox.infrastructure.wire.NetworkRule as WireNetworkRule
import com.alibaba.opensandbox.sandbox.infrastructure.wire.OSSFSVolume as WireOSSFSVolume
import com.alibaba.opensandbox.sandbox.infrastructure.wire.PVCVolume as WirePVCVolume
import com.alibaba.opensandbox.sandbox.infrastructure.wire.Pagination as WirePagination
import com.alibaba.opensandbox.sandbox.infrastructure.wire.Platform as WirePlatform
import com.alibaba.opensandbox.sandbox.infrastructure.wire.Pool as WirePool
import com.alibaba.opensandbox.sandbox.infrastructure.wire.Sandbox as WireSandbox
import com.alibaba.opensandbox.sandbox.infrastructure.wire.SandboxStatus as WireSandboxStatus
import com.alibaba.opensandbox.sandbox.infrastructure.wire.Snapshot as WireSnapshot
import com.alibaba.opensandbox.sandbox.infrastructure.wire.StoredImage as WireStoredImage
import com.alibaba.opensandbox.sandbox.infrastructure.wire.Substitution as WireSubstitution
import com.alibaba.opensandbox.sandbox.infrastructure.wire.Volume as WireVolume

/** RFC 3339 as it is on the wire. */
internal fun timeOf(text: String?): OffsetDateTime? =
    try {
        text?.takeIf { it.isNotEmpty() }?.let(OffsetDateTime::parse)
    } catch (e: DateTimeException) {
        throw SandboxInternalException("'$text' is no time of an answer", e)
    }

internal fun WireSandboxStatus.toModel() = SandboxStatus(state, reason, message, timeOf(lastTransitionAt))

internal fun WirePlatform.toModel() = PlatformSpec(os, arch)

internal fun WireSandbox.toModel() =
    SandboxInfo(
        id = id,
        status = status.toModel(),
        entrypoint = entrypoint ?: emptyList(),
        expiresAt = timeOf(expiresAt),
        createdAt = timeOf(createdAt),
        image = image?.uri?.takeIf { it.isNotBlank() }?.let { SandboxImageSpec(it) },
        snapshotId = snapshotId,
        platform = platform?.toModel(),
        metadata = metadata,
    )

internal fun WireSnapshot.toModel() =
    SnapshotInfo(
        id = id,
        sandboxId = sandboxId ?: "",
        status = SnapshotStatus(status.state, status.reason, status.message, timeOf(status.lastTransitionAt)),
        createdAt = timeOf(createdAt),
        name = name,
    )

internal fun WirePagination.toModel() =
    PaginationInfo(page.toInt(), pageSize.toInt(), totalItems.toInt(), totalPages.toInt(), hasNextPage)

internal fun SandboxImageSpec.toWire() =
    WireImage(image, auth?.let { WireImageAuth(it.username, it.password) }, pullPolicy)

internal fun NetworkRule.toWire() = WireNetworkRule(action.name.lowercase(Locale.ROOT), target)

internal fun NetworkPolicy.toWire() =
    WireNetworkPolicy(defaultAction.name.lowercase(Locale.ROOT), egress.map { it.toWire() })

internal fun WireNetworkPolicy.toModel() =
    NetworkPolicy(
        if (defaultAction.equals("allow", true)) NetworkPolicy.DefaultAction.ALLOW else NetworkPolicy.DefaultAction.DENY,
        (egress ?: emptyList()).map {
            val action = if (it.action.equals("allow", true)) NetworkRule.Action.ALLOW else NetworkRule.Action.DENY
            NetworkRule(action, it.target)
        },
    )

internal fun Volume.toWire() =
    WireVolume(
        name = name,
        mountPath = mountPath,
        readOnly = true.takeIf { readOnly },
        subPath = subPath,
        host = host?.let { WireHostVolume(it.path) },
        pvc =
            pvc?.let {
                WirePVCVolume(
                    it.claimName,
                    it.createIfNotExists,
                    it.deleteOnSandboxTermination,
                    it.storageClass,
                    it.storage,
                    it.accessModes,
                )
            },
        ossfs =
            ossfs?.let {
                WireOSSFSVolume(it.bucket, it.endpoint, it.version, it.options, it.accessKeyId, it.accessKeySecret)
            },
    )

internal fun Credential.toWire() = WireCredential(name, WireCredentialSource(source.type, source.value))

internal fun CredentialMatch.toWire() = WireMatch(schemes, ports?.map { it.toLong() }, hosts, methods, paths)

internal fun CredentialAuth.toWire() =
    WireAuth(
        type,
        credential,
        name,
        headers?.map { WireHeaderCredential(it.name, it.credential) },
        substitutions?.map { WireSubstitution(it.credential, it.placeholder, it.surfaces) },
    )

internal fun CredentialBinding.toWire() = WireBinding(name, match.toWire(), auth.toWire())

internal fun WireCredentialInfo.toModel() = CredentialMetadata(name, sourceType, revision)

internal fun WireBindingInfo.toModel() =
    CredentialBindingMetadata(
        name,
        revision ?: 0,
        match?.takeIf { it.hosts.isNotEmpty() }?.let {
            CredentialMatch
                .builder()
                .schemes(it.schemes)
                .ports(it.ports?.map(Long::toInt))
                .hosts(it.hosts)
                .methods(it.methods)
                .paths(it.paths)
                .build()
        },
        auth?.let { CredentialAuthMetadata(it.type, it.name) },
    )

internal fun WireStoredImage.toModel() =
    ImageInfo(
        id = id,
        names = names ?: emptyList(),
        size = size ?: 0,
        layers = layers?.toInt() ?: 0,
        inUse = inUse ?: false,
        createdAt = timeOf(createdAt),
        lastUsedAt = timeOf(lastUsedAt),
        platform = platform?.let { PlatformSpec(it.os, it.arch) },
    )

internal fun WireNamedVolume.toModel() = VolumeInfo(name, timeOf(createdAt), sizeBytes, usedBytes, usedBy)

internal fun CapacitySpec.toWire() =
    WireCapacitySpec(bufferMax.toLong(), bufferMin.toLong(), poolMax.toLong(), poolMin.toLong())

internal fun WirePool.toModel() =
    ServerPool(
        name = name,
        capacity =
            CapacitySpec(
                capacitySpec.bufferMin.toInt(),
                capacitySpec.bufferMax.toInt(),
                capacitySpec.poolMin.toInt(),
                capacitySpec.poolMax.toInt(),
            ),
        total = status.total?.toInt() ?: 0,
        allocated = status.allocated?.toInt() ?: 0,
        available = status.available?.toInt() ?: 0,
        message = status.message,
        createdAt = timeOf(createdAt),
    )
