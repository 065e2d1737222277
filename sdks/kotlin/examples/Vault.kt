// A secret that requests of the sandbox carry and the sandbox does not see.
package examples.vault

import com.alibaba.opensandbox.sandbox.Sandbox
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.Credential
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.CredentialAuth
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.CredentialBinding

fun main() {
    Sandbox
        .builder()
        .image("python:3.12")
        .networkPolicy { addEgress { target("api.example.org") } }
        .credentialProxyEnabled()
        .build()
        .use { sandbox ->
            val token =
                Credential
                    .builder()
                    .name("token")
                    .inlineSource("s3cr3t")
                    .build()
            val binding =
                CredentialBinding
                    .builder()
                    .name("api")
                    .match { hosts("api.example.org") }
                    .auth(CredentialAuth.bearer("token"))
                    .build()
            val state = sandbox.credentialVault().create(listOf(token), listOf(binding))
            println("revision ${state.revision}: ${state.credentials.map { it.name }}")
            sandbox.kill()
        }
}
