package com.alibaba.opensandbox.sandbox.infrastructure

/** What the artifacts of this SDK share with each other; it changes without notice. */
@RequiresOptIn(message = "This is for the OpenSandbox SDK itself and changes without notice.")
@Retention(AnnotationRetention.BINARY)
annotation class InternalOpenSandboxApi
