package com.alibaba.opensandbox.sandbox.infrastructure.adapters

import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.CredentialBindingMetadata
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.CredentialMetadata
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.CredentialVaultCreateRequest
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.CredentialVaultPatchRequest
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.CredentialVaultState
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.NetworkPolicy
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.NetworkRule
import com.alibaba.opensandbox.sandbox.domain.services.CredentialVault
import com.alibaba.opensandbox.sandbox.domain.services.Egress
import com.alibaba.opensandbox.sandbox.infrastructure.InternalOpenSandboxApi
import com.alibaba.opensandbox.sandbox.infrastructure.http.Api
import com.alibaba.opensandbox.sandbox.infrastructure.http.Call
import com.alibaba.opensandbox.sandbox.infrastructure.wire.BindingChanges
import com.alibaba.opensandbox.sandbox.infrastructure.wire.BindingInfo
import com.alibaba.opensandbox.sandbox.infrastructure.wire.BindingList
import com.alibaba.opensandbox.sandbox.infrastructure.wire.CreateVaultRequest
import com.alibaba.opensandbox.sandbox.infrastructure.wire.CredentialChanges
import com.alibaba.opensandbox.sandbox.infrastructure.wire.CredentialInfo
import com.alibaba.opensandbox.sandbox.infrastructure.wire.CredentialList
import com.alibaba.opensandbox.sandbox.infrastructure.wire.PatchVaultRequest
import com.alibaba.opensandbox.sandbox.infrastructure.wire.PolicyStatus
import com.alibaba.opensandbox.sandbox.infrastructure.wire.Vault

/** The API of egress, which is looked up when it is first needed. */
@OptIn(InternalOpenSandboxApi::class)
internal class EgressAdapter(
    private val find: () -> Api,
) : Egress {
    override fun getPolicy(): NetworkPolicy =
        find().ask<PolicyStatus>(Call("GET", "/policy")).policy?.toModel() ?: NetworkPolicy(NetworkPolicy.DefaultAction.ALLOW)

    override fun patchRules(rules: List<NetworkRule>) {
        find().send(Call("PATCH", "/policy", body = Api.jsonBody(rules.map { it.toWire() })))
    }

    override fun deleteRules(targets: List<String>) {
        find().send(Call("DELETE", "/policy", body = Api.jsonBody(targets)))
    }
}

@OptIn(InternalOpenSandboxApi::class)
internal class CredentialVaultAdapter(
    private val find: () -> Api,
) : CredentialVault {
    private fun Vault.toModel() =
        CredentialVaultState(revision, credentials.map { it.toModel() }, bindings.map { it.toModel() })

    override fun create(request: CredentialVaultCreateRequest): CredentialVaultState {
        val body = CreateVaultRequest(request.credentials.map { it.toWire() }, request.bindings.map { it.toWire() })
        return find().ask<Vault>(Call("POST", VAULT, body = Api.jsonBody(body))).toModel()
    }

    override fun get(): CredentialVaultState = find().ask<Vault>(Call("GET", VAULT)).toModel()

    override fun patch(request: CredentialVaultPatchRequest): CredentialVaultState {
        val credentials =
            request.credentials?.let { set ->
                CredentialChanges(set.add?.map { it.toWire() }, set.replace?.map { it.toWire() }, set.delete)
            }
        val bindings =
            request.bindings?.let { set ->
                BindingChanges(set.add?.map { it.toWire() }, set.replace?.map { it.toWire() }, set.delete)
            }
        val body = Api.jsonBody(PatchVaultRequest(request.expectedRevision, credentials, bindings))
        return find().ask<Vault>(Call("PATCH", VAULT, body = body)).toModel()
    }

    override fun delete() {
        find().send(Call("DELETE", VAULT))
    }

    override fun listCredentials(): List<CredentialMetadata> =
        find().ask<CredentialList>(Call("GET", "$VAULT/credentials")).credentials.map { it.toModel() }

    override fun getCredential(name: String): CredentialMetadata =
        Api.segment("name", name).let { find().ask<CredentialInfo>(Call("GET", "$VAULT/credentials/$it")).toModel() }

    override fun listBindings(): List<CredentialBindingMetadata> =
        find().ask<BindingList>(Call("GET", "$VAULT/bindings")).bindings.map { it.toModel() }

    override fun getBinding(name: String): CredentialBindingMetadata =
        Api.segment("name", name).let { find().ask<BindingInfo>(Call("GET", "$VAULT/bindings/$it")).toModel() }

    private companion object {
        const val VAULT = "/credential-vault"
    }
}
