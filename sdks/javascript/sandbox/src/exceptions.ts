export type SandboxErrorCode =
    | "INTERNAL_UNKNOWN_ERROR"
    | "READY_TIMEOUT"
    | "UNHEALTHY"
    | "INVALID_ARGUMENT"
    | "UNEXPECTED_RESPONSE"
    | "STREAM_ENDED"
    | "POOL_EMPTY"
    | "POOL_ACQUIRE_FAILED"
    | "POOL_NOT_RUNNING"
    | (string & {});

/** What went wrong: a stable code for programs, a message for people. */
export class SandboxError {
    static readonly INTERNAL_UNKNOWN_ERROR: SandboxErrorCode = "INTERNAL_UNKNOWN_ERROR";
    static readonly READY_TIMEOUT: SandboxErrorCode = "READY_TIMEOUT";
    static readonly UNHEALTHY: SandboxErrorCode = "UNHEALTHY";
    static readonly INVALID_ARGUMENT: SandboxErrorCode = "INVALID_ARGUMENT";
    /** A stream ended without its last event. */
    static readonly STREAM_ENDED: SandboxErrorCode = "STREAM_ENDED";
    static readonly UNEXPECTED_RESPONSE: SandboxErrorCode = "UNEXPECTED_RESPONSE";

    constructor(readonly code: SandboxErrorCode, readonly message?: string) {}
}

export interface SandboxExceptionOpts {
    message?: string;
    cause?: unknown;
    error?: SandboxError;
    requestId?: string;
}

/** Base of every error of this package. */
export class SandboxException extends Error {
    override readonly name: string = "SandboxException";
    readonly error: SandboxError;
    override readonly cause?: unknown;
    readonly requestId?: string;

    constructor(opts: SandboxExceptionOpts = {}) {
        super(opts.message ?? opts.error?.message);
        Object.setPrototypeOf(this, new.target.prototype);
        this.error = opts.error
            ?? new SandboxError(SandboxError.INTERNAL_UNKNOWN_ERROR, opts.message);
        if (opts.cause !== undefined)
            this.cause = opts.cause;
        if (opts.requestId !== undefined)
            this.requestId = opts.requestId;
    }
}

/** The server answered with an error status. */
export class SandboxApiException extends SandboxException {
    override readonly name: string = "SandboxApiException";
    readonly statusCode?: number;
    readonly rawBody?: unknown;
    /** Seconds after which the server wants to be asked again, when it said so. */
    readonly retryAfterSeconds?: number;

    constructor(opts: SandboxExceptionOpts & {
        statusCode?: number; rawBody?: unknown; retryAfterSeconds?: number;
    }) {
        super(opts);
        if (opts.statusCode !== undefined)
            this.statusCode = opts.statusCode;
        this.rawBody = opts.rawBody;
        if (opts.retryAfterSeconds !== undefined)
            this.retryAfterSeconds = opts.retryAfterSeconds;
    }
}

type Plain = { message?: string; cause?: unknown };

function coded(opts: Plain, code: SandboxErrorCode): SandboxExceptionOpts {
    return { ...(opts.message === undefined ? {} : { message: opts.message }),
        ...(opts.cause === undefined ? {} : { cause: opts.cause }),
        error: new SandboxError(code, opts.message) };
}

/** No usable answer: a network failure, a broken stream, a timeout, a body that is not as expected. */
export class SandboxInternalException extends SandboxException {
    override readonly name: string = "SandboxInternalException";

    constructor(opts: Plain & { code?: SandboxErrorCode }) {
        super(coded(opts, opts.code ?? SandboxError.INTERNAL_UNKNOWN_ERROR));
    }
}

/** The sandbox has failed or ended. */
export class SandboxUnhealthyException extends SandboxException {
    override readonly name: string = "SandboxUnhealthyException";

    constructor(opts: Plain) {
        super(coded(opts, SandboxError.UNHEALTHY));
    }
}

/** The sandbox was not ready in time. */
export class SandboxReadyTimeoutException extends SandboxException {
    override readonly name: string = "SandboxReadyTimeoutException";

    constructor(opts: Plain) {
        super(coded(opts, SandboxError.READY_TIMEOUT));
    }
}

/** An argument that can never work; nothing was sent. */
export class InvalidArgumentException extends SandboxException {
    override readonly name: string = "InvalidArgumentException";

    constructor(opts: Plain) {
        super(coded(opts, SandboxError.INVALID_ARGUMENT));
    }
}

/** The pool has no idle sandbox, and was asked not to create one. */
export class PoolEmptyException extends SandboxException {
    override readonly name: string = "PoolEmptyException";

    constructor(opts: Plain) {
        super(coded(opts, "POOL_EMPTY"));
    }
}

/** The idle sandbox that was taken from the pool does not answer. */
export class PoolAcquireFailedException extends SandboxException {
    override readonly name: string = "PoolAcquireFailedException";

    constructor(opts: Plain) {
        super(coded(opts, "POOL_ACQUIRE_FAILED"));
    }
}

/** The pool was not started, or was shut down. */
export class PoolNotRunningException extends SandboxException {
    override readonly name: string = "PoolNotRunningException";

    constructor(opts: Plain) {
        super(coded(opts, "POOL_NOT_RUNNING"));
    }
}

export function invalid(message: string): InvalidArgumentException {
    return new InvalidArgumentException({ message });
}

const KEY = /^[!-~]([ -~]{0,253}[!-~])?$/;

/** Refuses what cannot be an idempotency key: it goes into a header. */
export function checkKey(value: unknown): void {
    if (typeof value !== "string" || !KEY.test(value))
        throw invalid("idempotencyKey must be 1 to 255 printable ASCII characters, without spaces around");
}

export function needText(what: string, value: unknown): asserts value is string {
    if (typeof value !== "string" || value.trim() === "")
        throw invalid(`${what} must not be blank`);
}
