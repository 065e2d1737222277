import { VERSION } from "./version.js";

/** Port of execd, the daemon inside a sandbox. */
export const DEFAULT_EXECD_PORT = 44772;
/** Port of the egress engine of a sandbox. */
export const DEFAULT_EGRESS_PORT = 18080;
/** Keeps a sandbox open until it expires or is killed. */
export const DEFAULT_ENTRYPOINT: string[] = ["tail", "-f", "/dev/null"];
export const DEFAULT_RESOURCE_LIMITS: Record<string, string> = { cpu: "1", memory: "2Gi" };
export const DEFAULT_TIMEOUT_SECONDS = 600;
export const DEFAULT_READY_TIMEOUT_SECONDS = 30;
export const DEFAULT_HEALTH_CHECK_POLLING_INTERVAL_MILLIS = 200;
export const DEFAULT_REQUEST_TIMEOUT_SECONDS = 30;

export const USER_AGENT = `OpenSandbox-JS-SDK/${VERSION}`;
export const API_KEY_HEADER = "OPEN-SANDBOX-API-KEY";
export const CURSOR_HEADER = "execd-commands-tail-cursor";
