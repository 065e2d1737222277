// What a sandbox may talk to, and changes of it while it runs.
package examples.egress

import com.alibaba.opensandbox.sandbox.Sandbox
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.NetworkPolicy
import com.alibaba.opensandbox.sandbox.domain.models.sandboxes.NetworkRule

fun main() {
    Sandbox
        .builder()
        .image("python:3.12")
        .networkPolicy {
            defaultAction(NetworkPolicy.DefaultAction.DENY)
            addEgress { target("pypi.org") }
        }.build()
        .use { sandbox ->
            sandbox.patchEgressRules(listOf(NetworkRule(NetworkRule.Action.ALLOW, "*.example.org")))
            sandbox.getEgressPolicy().egress.forEach { println("${it.action} ${it.target}") }
            sandbox.deleteEgressRules(listOf("*.example.org"))
            sandbox.kill()
        }
}
