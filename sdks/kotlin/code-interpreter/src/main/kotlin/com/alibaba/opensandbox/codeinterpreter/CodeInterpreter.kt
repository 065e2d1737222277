package com.alibaba.opensandbox.codeinterpreter

import com.alibaba.opensandbox.sandbox.Sandbox
import com.alibaba.opensandbox.sandbox.domain.exceptions.InvalidArgumentException
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.Execution
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.ExecutionEvent
import com.alibaba.opensandbox.sandbox.domain.models.execd.executions.ExecutionHandlers
import com.alibaba.opensandbox.sandbox.domain.services.Commands
import com.alibaba.opensandbox.sandbox.domain.services.EventStream
import com.alibaba.opensandbox.sandbox.domain.services.Filesystem
import com.alibaba.opensandbox.sandbox.domain.services.Metrics
import com.alibaba.opensandbox.sandbox.infrastructure.InternalOpenSandboxApi
import com.alibaba.opensandbox.sandbox.infrastructure.http.Api
import com.alibaba.opensandbox.sandbox.infrastructure.http.Call
import com.alibaba.opensandbox.sandbox.infrastructure.http.Limit
import com.alibaba.opensandbox.sandbox.infrastructure.http.Runs
import com.alibaba.opensandbox.sandbox.infrastructure.wire.CodeContextRef
import com.alibaba.opensandbox.sandbox.infrastructure.wire.CodeContextRequest
import java.time.Duration
import com.alibaba.opensandbox.sandbox.infrastructure.wire.CodeContext as WireCodeContext
import com.alibaba.opensandbox.sandbox.infrastructure.wire.RunCodeRequest as WireRunCode

/** Languages that have kernels. */
object SupportedLanguage {
    const val PYTHON = "python"
    const val JAVA = "java"
    const val GO = "go"
    const val TYPESCRIPT = "typescript"
    const val JAVASCRIPT = "javascript"
    const val BASH = "bash"
}

/** Where code runs: what it defines stays for the next run. Without an id it is the default one. */
data class CodeContext
    @JvmOverloads
    constructor(
        val id: String? = null,
        val language: String = SupportedLanguage.PYTHON,
    ) {
        class Builder internal constructor() {
            private var id: String? = null
            private var language = SupportedLanguage.PYTHON

            fun id(id: String?) = apply { this.id = id }

            fun language(language: String) = apply { this.language = language }

            fun build() = CodeContext(id, language)
        }

        companion object {
            @JvmStatic
            fun builder(): Builder = Builder()
        }
    }

/** Code to be run. */
class RunCodeRequest private constructor(
    builder: Builder,
) {
    val code: String = requireNotNull(builder.code) { "code must be given" }
    val context: CodeContext = builder.context ?: builder.language?.let { CodeContext(null, it) } ?: CodeContext()
    val timeout: Duration? = builder.timeout
    val handlers: ExecutionHandlers? = builder.handlers

    init {
        require(code.isNotBlank()) { "code must not be blank" }
        val language = builder.language
        require(language == null || language == context.language) {
            "language $language is not that of the context, ${context.language}"
        }
    }

    class Builder internal constructor() {
        internal var code: String? = null
        internal var context: CodeContext? = null
        internal var language: String? = null
        internal var timeout: Duration? = null
        internal var handlers: ExecutionHandlers? = null

        fun code(code: String) = apply { this.code = code }

        fun context(context: CodeContext?) = apply { this.context = context }

        /** Instead of a context: the default one of the language. */
        fun language(language: String?) = apply { this.language = language }

        fun timeout(timeout: Duration?) = apply { this.timeout = timeout }

        fun handlers(handlers: ExecutionHandlers?) = apply { this.handlers = handlers }

        fun build() = RunCodeRequest(this)
    }

    companion object {
        @JvmStatic
        fun builder(): Builder = Builder()
    }
}

/** Contexts of a sandbox, and code that runs in them. */
interface Codes {
    fun createContext(language: String): CodeContext

    fun getContext(contextId: String): CodeContext

    fun listContexts(language: String): List<CodeContext>

    fun deleteContext(contextId: String)

    /** All of a language. */
    fun deleteContexts(language: String)

    /** Runs code to its end. An error of the code is in the execution. */
    fun run(request: RunCodeRequest): Execution

    /** The same, event by event. */
    fun stream(request: RunCodeRequest): EventStream<ExecutionEvent>

    fun run(
        code: String,
        context: CodeContext,
        handlers: ExecutionHandlers? = null,
    ): Execution =
        run(
            RunCodeRequest
                .builder()
                .code(code)
                .context(context)
                .handlers(handlers)
                .build(),
        )

    fun run(
        code: String,
        context: CodeContext,
    ): Execution = run(code, context, null)

    fun run(
        code: String,
        language: String,
        handlers: ExecutionHandlers? = null,
    ): Execution = run(code, CodeContext(null, language), handlers)

    fun run(
        code: String,
        language: String,
    ): Execution = run(code, language, null)

    /** In the default context of Python. */
    fun run(code: String): Execution = run(code, CodeContext(), null)

    /** Ends what runs in a context, or the execution of an id. */
    fun interrupt(id: String)
}

@OptIn(InternalOpenSandboxApi::class)
private class CodesAdapter(
    private val api: Api,
) : Codes {
    private val runs = Runs(api)

    private fun WireCodeContext.toModel() = CodeContext(id, language ?: SupportedLanguage.PYTHON)

    private fun path(contextId: String) = "/code/contexts/${Api.segment("context id", contextId)}"

    private fun ofLanguage(language: String) = listOf("language" to Api.needText("language", language))

    override fun createContext(language: String): CodeContext {
        val body = Api.jsonBody(CodeContextRequest(Api.needText("language", language)))
        return api.ask<WireCodeContext>(Call("POST", "/code/context", body = body)).toModel()
    }

    override fun getContext(contextId: String): CodeContext =
        api.ask<WireCodeContext>(Call("GET", path(contextId))).toModel()

    override fun listContexts(language: String): List<CodeContext> =
        api.ask<List<WireCodeContext>>(Call("GET", "/code/contexts", ofLanguage(language))).map { it.toModel() }

    override fun deleteContext(contextId: String) {
        api.send(Call("DELETE", path(contextId)))
    }

    override fun deleteContexts(language: String) {
        api.send(Call("DELETE", "/code/contexts", ofLanguage(language)))
    }

    private fun callOf(request: RunCodeRequest): Call {
        val context = CodeContextRef(request.context.id, request.context.language)
        val body = WireRunCode(request.code, context, request.timeout?.toMillis())
        return Call("POST", "/code", body = Api.jsonBody(body), limit = Limit.READ)
    }

    // A cell is interrupted with its connection: there is nothing to go on with.
    override fun run(request: RunCodeRequest): Execution = runs.execute(callOf(request), "the code", request.handlers)

    override fun stream(request: RunCodeRequest): EventStream<ExecutionEvent> = runs.events(callOf(request), "the code")

    override fun interrupt(id: String) {
        api.send(Call("DELETE", "/code", listOf("id" to Api.needText("id", id))))
    }
}

/** A sandbox whose image has kernels. Closing the sandbox is the caller's. */
@OptIn(InternalOpenSandboxApi::class)
class CodeInterpreter private constructor(
    private val sandbox: Sandbox,
) {
    private val codes: Codes = CodesAdapter(sandbox.execd)

    val id: String get() = sandbox.id

    fun sandbox(): Sandbox = sandbox

    fun files(): Filesystem = sandbox.files()

    fun commands(): Commands = sandbox.commands()

    fun metrics(): Metrics = sandbox.metrics()

    fun codes(): Codes = codes

    class Builder internal constructor() {
        private var sandbox: Sandbox? = null

        fun fromSandbox(sandbox: Sandbox) = apply { this.sandbox = sandbox }

        fun build(): CodeInterpreter =
            CodeInterpreter(sandbox ?: throw InvalidArgumentException("fromSandbox(...) must be given"))
    }

    companion object {
        @JvmStatic
        fun builder(): Builder = Builder()
    }
}
