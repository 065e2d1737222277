package com.alibaba.opensandbox.sandbox.domain.services

import com.alibaba.opensandbox.sandbox.domain.models.diagnostics.DiagnosticContent
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.CapacitySpec
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.Credential
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.CredentialBinding
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.CredentialBindingMetadata
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.CredentialBindingMutationSet
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.CredentialMetadata
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.CredentialMutationSet
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.CredentialVaultCreateRequest
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.CredentialVaultPatchRequest
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.CredentialVaultState
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.ForkRequest
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.ImageInfo
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.LifecycleEvent
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.NetworkPolicy
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.NetworkRule
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.PagedImageInfos
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.PagedSandboxInfos
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.PagedSnapshotInfos
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.PagedVolumeInfos
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.PullProgress
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxEndpoint
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxFilter
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxImageSpec
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxInfo
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxMetrics
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SandboxRenewResponse
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.ServerPool
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SnapshotFilter
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.SnapshotInfo
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.VolumeInfo
import java.io.InputStream
import java.io.OutputStream
import java.time.OffsetDateTime

/** Sandboxes and snapshots of the server. */
interface Sandboxes {
    fun getSandboxInfo(sandboxId: String): SandboxInfo

    fun listSandboxes(filter: SandboxFilter): PagedSandboxInfos

    fun getSandboxEndpoint(
        sandboxId: String,
        port: Int,
        useServerProxy: Boolean,
    ): SandboxEndpoint

    /** An address that works until [expires], in seconds since 1970, without header fields. */
    fun getSignedEndpoint(
        sandboxId: String,
        port: Int,
        expires: Long,
        useServerProxy: Boolean,
    ): SandboxEndpoint

    /** A null value deletes a key. */
    fun patchSandboxMetadata(
        sandboxId: String,
        patch: Map<String, String?>,
    ): SandboxInfo

    fun pauseSandbox(sandboxId: String)

    fun resumeSandbox(sandboxId: String)

    fun stopSandbox(sandboxId: String)

    fun startSandbox(sandboxId: String)

    fun killSandbox(sandboxId: String)

    fun renewSandboxExpiration(
        sandboxId: String,
        expiresAt: OffsetDateTime,
    ): SandboxRenewResponse

    fun forkSandbox(
        sandboxId: String,
        request: ForkRequest,
    ): List<SandboxInfo>

    fun rollbackSandbox(
        sandboxId: String,
        snapshotId: String,
    ): SandboxInfo

    fun createSnapshot(
        sandboxId: String,
        name: String?,
        memory: Boolean? = null,
    ): SnapshotInfo

    fun watchEvents(
        sandboxId: String?,
        after: String?,
    ): EventStream<LifecycleEvent>

    fun getSnapshot(snapshotId: String): SnapshotInfo

    fun listSnapshots(filter: SnapshotFilter): PagedSnapshotInfos

    fun deleteSnapshot(snapshotId: String)
}

/** Logs and events of sandboxes. */
interface Diagnostics {
    fun getLogs(
        sandboxId: String,
        scope: String,
    ): DiagnosticContent

    fun getEvents(
        sandboxId: String,
        scope: String,
    ): DiagnosticContent
}

/** Whether a sandbox answers. */
interface Health {
    /** Throws what is wrong. */
    fun ping(sandboxId: String): Boolean
}

/** What a sandbox uses. */
interface Metrics {
    fun getMetrics(): SandboxMetrics

    /** About one a second. */
    fun watch(): EventStream<SandboxMetrics>
}

/** The network policy of a sandbox. */
interface Egress {
    fun getPolicy(): NetworkPolicy

    /** Rules of the same target take the place of those there. */
    fun patchRules(rules: List<NetworkRule>)

    fun deleteRules(targets: List<String>)
}

/** Secrets that are put into requests of a sandbox, which does not see them. */
interface CredentialVault {
    fun create(request: CredentialVaultCreateRequest): CredentialVaultState

    fun create(
        credentials: List<Credential>,
        bindings: List<CredentialBinding>,
    ): CredentialVaultState = create(CredentialVaultCreateRequest(credentials, bindings))

    fun get(): CredentialVaultState

    fun patch(request: CredentialVaultPatchRequest): CredentialVaultState

    fun patch(
        expectedRevision: Long?,
        credentials: CredentialMutationSet?,
        bindings: CredentialBindingMutationSet?,
    ): CredentialVaultState = patch(CredentialVaultPatchRequest(expectedRevision, credentials, bindings))

    fun delete()

    fun listCredentials(): List<CredentialMetadata>

    fun getCredential(name: String): CredentialMetadata

    fun listBindings(): List<CredentialBindingMetadata>

    fun getBinding(name: String): CredentialBindingMetadata
}

/** Images that the server has. */
interface Images {
    fun list(
        page: Int? = null,
        pageSize: Int? = null,
    ): PagedImageInfos

    fun get(image: String): ImageInfo

    fun pull(image: String): ImageInfo = pull(SandboxImageSpec(image), null, null)

    /** Waits until it is there. [policy]: `IfNotPresent` or `Always`. */
    fun pull(
        image: SandboxImageSpec,
        policy: String?,
        onProgress: ((PullProgress) -> Unit)?,
    ): ImageInfo

    /** Takes an archive of an image; its own name counts unless one is given. */
    fun importArchive(
        archive: InputStream,
        name: String? = null,
    ): ImageInfo

    /** Writes an OCI archive; the stream stays open. */
    fun exportArchive(
        image: String,
        into: OutputStream,
    )

    fun delete(image: String)
}

/** Named volumes of the server. */
interface Volumes {
    fun list(
        page: Int? = null,
        pageSize: Int? = null,
    ): PagedVolumeInfos

    /** [size]: such as `1Gi`; null: no limit. */
    fun create(
        name: String,
        size: String? = null,
    ): VolumeInfo

    fun get(name: String): VolumeInfo

    fun delete(name: String)
}

/** Pools that the server keeps. */
interface Pools {
    fun list(): List<ServerPool>

    /** [template] is the JSON text of what is created. */
    fun create(
        name: String,
        template: String,
        capacity: CapacitySpec,
    ): ServerPool

    fun get(name: String): ServerPool

    fun update(
        name: String,
        capacity: CapacitySpec,
    ): ServerPool

    fun delete(name: String)
}
