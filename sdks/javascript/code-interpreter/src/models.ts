import type {
    CallOptions, Execution, ExecutionHandlers, ServerStreamEvent,
} from "@alibaba-group/opensandbox";

export const SupportedLanguages = {
    PYTHON: "python",
    JAVA: "java",
    GO: "go",
    TYPESCRIPT: "typescript",
    JAVASCRIPT: "javascript",
    BASH: "bash",
} as const;

export type SupportedLanguage = (typeof SupportedLanguages)[keyof typeof SupportedLanguages];

/** Where code runs: one with an id keeps its variables apart from all others. */
export interface CodeContext {
    id?: string;
    language: SupportedLanguage | (string & {});
    cwd?: string;
    /** What runs it. */
    kernel?: string;
    state?: "idle" | "busy" | "dead" | (string & {});
}

export interface CreateContextOptions extends CallOptions {
    /** Made when it is not there. */
    cwd?: string;
    /** `driver`, `shell`, `jupyter`, or `jupyter:` and a name. */
    kernel?: string;
    envs?: Record<string, string>;
}

export interface RunCodeRequest {
    code: string;
    context?: CodeContext;
    timeoutSeconds?: number;
}

export interface RunCodeOptions {
    /** Either a context or a language; python's default context without both. */
    context?: CodeContext;
    language?: SupportedLanguage | (string & {});
    handlers?: ExecutionHandlers;
    signal?: AbortSignal;
    /** Then the cell is interrupted. An extension. */
    timeoutSeconds?: number;
}

export interface Codes {
    createContext(language: SupportedLanguage | (string & {}), options?: CreateContextOptions,
    ): Promise<CodeContext>;
    getContext(contextId: string, options?: CallOptions): Promise<CodeContext>;
    /** Of all languages unless one is given. */
    listContexts(language?: SupportedLanguage | (string & {}), options?: CallOptions,
    ): Promise<CodeContext[]>;
    deleteContext(contextId: string, options?: CallOptions): Promise<void>;
    deleteContexts(language: SupportedLanguage | (string & {}), options?: CallOptions,
    ): Promise<void>;
    run(code: string, options?: RunCodeOptions): Promise<Execution>;
    /** Events as they come. A stream that ends without its last event is an error. */
    runStream(request: RunCodeRequest, signal?: AbortSignal): AsyncIterable<ServerStreamEvent>;
    /** Interrupts the cell that a context runs. */
    interrupt(contextId: string, options?: CallOptions): Promise<void>;
}
