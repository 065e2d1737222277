// internal.ts - for packages that stand on this one. Nothing here is promised to programs.
export { CommandsAdapter } from "./commands.js";
export { CredentialVaultAdapter, EgressAdapter } from "./egress.js";
export { needText, invalid } from "./exceptions.js";
export { eventBatches, EventIterator, execute } from "./execution.js";
export { FilesystemAdapter } from "./files.js";
export { HttpClient, segment } from "./http.js";
export { IsolatedSessionsAdapter } from "./isolation.js";
export { ImagesAdapter, PoolsAdapter, SandboxesAdapter, VolumesAdapter } from "./lifecycle.js";
export { HealthAdapter, MetricsAdapter } from "./metrics.js";
export { TerminalsAdapter } from "./pty.js";
export type * as wire from "./models_gen.js";
