export { ConnectionConfig } from "./config.js";
export type { ConnectionConfigOptions, ConnectionProtocol } from "./config.js";
export {
    DEFAULT_EGRESS_PORT, DEFAULT_ENTRYPOINT, DEFAULT_EXECD_PORT,
    DEFAULT_HEALTH_CHECK_POLLING_INTERVAL_MILLIS, DEFAULT_READY_TIMEOUT_SECONDS,
    DEFAULT_REQUEST_TIMEOUT_SECONDS, DEFAULT_RESOURCE_LIMITS, DEFAULT_TIMEOUT_SECONDS,
} from "./constants.js";
export {
    InvalidArgumentException, PoolAcquireFailedException, PoolEmptyException,
    PoolNotRunningException, SandboxApiException, SandboxError, SandboxException,
    SandboxInternalException, SandboxReadyTimeoutException, SandboxUnhealthyException,
} from "./exceptions.js";
export type { SandboxErrorCode, SandboxExceptionOpts } from "./exceptions.js";
export { ExecutionEventDispatcher } from "./execution.js";
export { createDefaultAdapterFactory, DefaultAdapterFactory } from "./factory.js";
export type {
    AdapterFactory, CreateEgressStackOptions, CreateExecdStackOptions, CreateLifecycleStackOptions,
    EgressStack, ExecdStack, LifecycleStack,
} from "./factory.js";
export { octalMode } from "./files.js";
export type { RetryOptions } from "./http.js";
export { SandboxManager } from "./manager.js";
export type { SandboxFilter, SandboxManagerOptions } from "./manager.js";
export type * from "./models.js";
export { AcquirePolicy, InMemoryPoolStateStore, SandboxPool } from "./pool.js";
export type {
    AcquireOptions, IdleEntry, PoolCreationSpec, PoolSnapshot, PoolStateStore, SandboxPoolOptions,
} from "./pool.js";
export { Terminal } from "./pty.js";
export type { TerminalInfo, TerminalOptions, TerminalOutput } from "./pty.js";
export { Sandbox } from "./sandbox.js";
export type {
    HealthCheck, SandboxConnectOptions, SandboxCreateOptions, WaitUntilReadyOptions,
} from "./sandbox.js";
export type * from "./services.js";
export { VERSION } from "./version.js";
