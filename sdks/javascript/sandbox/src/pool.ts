// pool.ts - sandboxes made ahead of time, kept by this process.
import { ConnectionConfig, type ConnectionConfigOptions } from "./config.js";
import {
    invalid, needText, PoolAcquireFailedException, PoolEmptyException, PoolNotRunningException,
} from "./exceptions.js";
import { SandboxManager } from "./manager.js";
import type { CallOptions } from "./models.js";
import { Sandbox, type HealthCheck, type SandboxCreateOptions } from "./sandbox.js";
import { messageOf } from "./transport.js";

const BACKOFF_MS_MIN = 30_000;
const BACKOFF_MS_MAX = 86_400_000;

/** What acquire() does when there is no idle sandbox. */
export const AcquirePolicy = { DIRECT_CREATE: "DIRECT_CREATE", FAIL_FAST: "FAIL_FAST" } as const;
export type AcquirePolicy = (typeof AcquirePolicy)[keyof typeof AcquirePolicy];

/** What the sandboxes of a pool are made of. */
export type PoolCreationSpec = Omit<SandboxCreateOptions,
    "connectionConfig" | "adapterFactory" | "timeoutSeconds" | "skipHealthCheck" | "healthCheck"
    | "readyTimeoutSeconds" | "healthCheckPollingInterval" | "signal" | "idempotencyKey">;

export interface IdleEntry {
    sandboxId: string;
    /** Milliseconds since 1970. */
    expiresAt: number;
}

/** Where a pool keeps the ids of its idle sandboxes. Processes may share one that is not in memory. */
export interface PoolStateStore {
    /** The oldest entry that lives for `minRemainingMs` more, and those that were too old. */
    tryTakeIdle(pool: string, minRemainingMs: number,
    ): Promise<{ sandboxId?: string; discarded: string[] }>;
    putIdle(pool: string, entry: IdleEntry): Promise<void>;
    removeIdle(pool: string, sandboxId: string): Promise<void>;
    /** Removes entries that live for less, and returns their ids. */
    reapExpiredIdle(pool: string, minRemainingMs: number): Promise<string[]>;
    snapshotIdleEntries(pool: string): Promise<IdleEntry[]>;
    tryAcquirePrimaryLock(pool: string, owner: string, ttlMs: number): Promise<boolean>;
    releasePrimaryLock(pool: string, owner: string): Promise<void>;
    getMaxIdle(pool: string): Promise<number | undefined>;
    setMaxIdle(pool: string, maxIdle: number): Promise<void>;
}

interface Kept {
    idle: IdleEntry[];
    maxIdle?: number;
    lock?: { owner: string; until: number };
}

/** A store of this process. */
export class InMemoryPoolStateStore implements PoolStateStore {
    private readonly pools = new Map<string, Kept>();

    private of(pool: string): Kept {
        let kept = this.pools.get(pool);
        if (!kept)
            this.pools.set(pool, kept = { idle: [] });
        return kept;
    }

    reapExpiredIdle(pool: string, minRemainingMs: number): Promise<string[]> {
        const kept = this.of(pool);
        const limit = Date.now() + minRemainingMs;
        const old = kept.idle.filter((entry) => entry.expiresAt < limit);
        kept.idle = kept.idle.filter((entry) => entry.expiresAt >= limit);
        return Promise.resolve(old.map((entry) => entry.sandboxId));
    }

    async tryTakeIdle(pool: string, minRemainingMs: number,
    ): Promise<{ sandboxId?: string; discarded: string[] }> {
        const discarded = await this.reapExpiredIdle(pool, minRemainingMs);
        const taken = this.of(pool).idle.shift();
        return { discarded, ...(taken ? { sandboxId: taken.sandboxId } : {}) };
    }

    async putIdle(pool: string, entry: IdleEntry): Promise<void> {
        await this.removeIdle(pool, entry.sandboxId);
        this.of(pool).idle.push(entry);
    }

    removeIdle(pool: string, sandboxId: string): Promise<void> {
        const kept = this.of(pool);
        kept.idle = kept.idle.filter((entry) => entry.sandboxId !== sandboxId);
        return Promise.resolve();
    }

    snapshotIdleEntries(pool: string): Promise<IdleEntry[]> {
        return Promise.resolve(this.of(pool).idle.map((entry) => ({ ...entry })));
    }

    tryAcquirePrimaryLock(pool: string, owner: string, ttlMs: number): Promise<boolean> {
        const kept = this.of(pool);
        if (kept.lock && kept.lock.owner !== owner && kept.lock.until > Date.now())
            return Promise.resolve(false);
        kept.lock = { owner, until: Date.now() + ttlMs };
        return Promise.resolve(true);
    }

    releasePrimaryLock(pool: string, owner: string): Promise<void> {
        const kept = this.of(pool);
        if (kept.lock?.owner === owner)
            delete kept.lock;
        return Promise.resolve();
    }

    getMaxIdle(pool: string): Promise<number | undefined> {
        return Promise.resolve(this.of(pool).maxIdle);
    }

    setMaxIdle(pool: string, maxIdle: number): Promise<void> {
        this.of(pool).maxIdle = maxIdle;
        return Promise.resolve();
    }
}

export interface SandboxPoolOptions {
    poolName: string;
    /** How many idle sandboxes to keep. A store that has a number already keeps it. */
    maxIdle: number;
    creationSpec: PoolCreationSpec;
    /** In memory unless given. */
    stateStore?: PoolStateStore;
    connectionConfig?: ConnectionConfig | ConnectionConfigOptions;
    ownerId?: string;
    /** Creations at a time; a fifth of maxIdle unless given. */
    warmupConcurrency?: number;
    primaryLockTtlSeconds?: number;
    reconcileIntervalSeconds?: number;
    /** Failures in a row until the pool is DEGRADED and pauses. */
    degradedThreshold?: number;
    acquireReadyTimeoutSeconds?: number;
    acquireHealthCheckPollingInterval?: number;
    acquireHealthCheck?: HealthCheck;
    acquireSkipHealthCheck?: boolean;
    /** Entries that live for less are not given out; at most half of the idle timeout. */
    acquireMinRemainingTtlSeconds?: number;
    warmupReadyTimeoutSeconds?: number;
    warmupHealthCheckPollingInterval?: number;
    warmupHealthCheck?: HealthCheck;
    warmupSkipHealthCheck?: boolean;
    /** Runs once in each new sandbox before it is idle. */
    warmupSandboxPreparer?: (sandbox: Sandbox) => void | Promise<void>;
    idleTimeoutSeconds?: number;
    drainTimeoutSeconds?: number;
}

export interface AcquireOptions extends CallOptions {
    /** It expires so many seconds after it was acquired. */
    sandboxTimeoutSeconds?: number;
    policy?: AcquirePolicy;
}

export interface PoolSnapshot {
    state: "HEALTHY" | "DEGRADED" | "DRAINING" | "STOPPED";
    lifecycleState: "NOT_STARTED" | "STARTING" | "RUNNING" | "DRAINING" | "STOPPED";
    idleCount: number;
    maxIdle: number;
    failureCount: number;
    backoffActive: boolean;
    lastError?: string;
    inFlightOperations: number;
}

function defaults(options: SandboxPoolOptions) {
    const idleTimeoutSeconds = options.idleTimeoutSeconds ?? 86_400;
    const all = {
        ownerId: `pool-owner-${globalThis.crypto?.randomUUID?.() ?? Math.random()}`,
        warmupConcurrency: Math.max(1, Math.ceil(0.2 * options.maxIdle)),
        primaryLockTtlSeconds: 60, reconcileIntervalSeconds: 30, degradedThreshold: 3,
        acquireReadyTimeoutSeconds: 30, acquireHealthCheckPollingInterval: 200,
        acquireSkipHealthCheck: false,
        acquireMinRemainingTtlSeconds: Math.min(60, idleTimeoutSeconds / 2),
        warmupReadyTimeoutSeconds: 30, warmupHealthCheckPollingInterval: 200,
        warmupSkipHealthCheck: false, drainTimeoutSeconds: 30,
        ...options, idleTimeoutSeconds,
    };
    needText("poolName", all.poolName);
    if (!Number.isInteger(all.maxIdle) || all.maxIdle < 0)
        throw invalid("maxIdle must be a whole number that is not negative");
    if (!Number.isInteger(all.warmupConcurrency) || all.warmupConcurrency < 1)
        throw invalid("warmupConcurrency must be a whole number from 1");
    if (!(all.acquireMinRemainingTtlSeconds < idleTimeoutSeconds))
        throw invalid("acquireMinRemainingTtlSeconds must be less than idleTimeoutSeconds");
    return all;
}

/** Keeps idle sandboxes, so that acquire() need not wait for one. */
export class SandboxPool {
    private readonly options: ReturnType<typeof defaults>;
    private readonly store: PoolStateStore;
    private readonly config: ConnectionConfig;
    private manager: SandboxManager | undefined;
    private life: PoolSnapshot["lifecycleState"] = "NOT_STARTED";
    private timer: ReturnType<typeof setTimeout> | undefined;
    private working: Promise<void> | undefined;
    private again = false;
    private failures = 0;
    private backoffUntil = 0;
    private backoffMs = 0;
    private lastError: string | undefined;
    private readonly inFlight = new Set<Promise<unknown>>();

    constructor(options: SandboxPoolOptions) {
        this.options = defaults(options);
        this.store = options.stateStore ?? new InMemoryPoolStateStore();
        this.config = ConnectionConfig.from(options.connectionConfig);
    }

    /** Begins to fill the pool; it does not wait until it is full. */
    async start(): Promise<void> {
        if (this.life === "RUNNING" || this.life === "STARTING")
            return;
        this.life = "STARTING";
        this.manager = SandboxManager.create({ connectionConfig: this.config });
        const { poolName, maxIdle } = this.options;
        if (await this.store.getMaxIdle(poolName) === undefined)
            await this.store.setMaxIdle(poolName, maxIdle);
        this.life = "RUNNING";
        this.reconcileSoon();
    }

    private reconcileSoon(): void {
        clearTimeout(this.timer);
        if (this.life !== "RUNNING")
            return;
        if (this.working) {
            this.again = true;
            return;
        }
        this.again = false;
        this.working = this.reconcile().catch((error: unknown) => {
            this.lastError = messageOf(error);
        }).then(() => {
            this.working = undefined;
            if (this.life !== "RUNNING")
                return;
            if (this.again) {
                this.reconcileSoon();
                return;
            }
            this.timer = setTimeout(() => this.reconcileSoon(),
                this.options.reconcileIntervalSeconds * 1000);
            (this.timer as { unref?: () => void }).unref?.();
        });
    }

    private async reconcile(): Promise<void> {
        const { poolName, ownerId, warmupConcurrency } = this.options;
        const lockMs = this.options.primaryLockTtlSeconds * 1000;
        if (!await this.store.tryAcquirePrimaryLock(poolName, ownerId, lockMs))
            return;
        await this.discard(await this.store.reapExpiredIdle(poolName, this.minRemainingMs()));
        const target = await this.store.getMaxIdle(poolName) ?? this.options.maxIdle;
        const idle = (await this.store.snapshotIdleEntries(poolName)).length;
        if (idle > target)
            await this.shrink(Math.min(idle - target, warmupConcurrency));
        else if (Date.now() >= this.backoffUntil)
            await this.grow(Math.min(target - idle, warmupConcurrency));
        const now = (await this.store.snapshotIdleEntries(poolName)).length;
        this.again ||= now !== target && Date.now() >= this.backoffUntil && this.failures === 0;
    }

    private minRemainingMs(): number {
        return this.options.acquireMinRemainingTtlSeconds * 1000;
    }

    private async shrink(count: number): Promise<void> {
        for (let n = 0; n < count; n++) {
            const { sandboxId, discarded } = await this.store.tryTakeIdle(this.options.poolName, 0);
            await this.discard([...discarded, ...(sandboxId ? [sandboxId] : [])]);
        }
    }

    private async grow(count: number): Promise<void> {
        const made = await Promise.allSettled(Array.from({ length: count }, () => this.warmUp()));
        const failed = made.filter((one) => one.status === "rejected") as PromiseRejectedResult[];
        if (failed.length === 0) {
            this.failures = count > 0 ? 0 : this.failures;
            this.backoffMs = count > 0 ? 0 : this.backoffMs;
            return;
        }
        this.failures += failed.length;
        this.lastError = messageOf(failed[0]!.reason);
        if (this.failures >= this.options.degradedThreshold) {
            this.backoffMs = Math.min(this.backoffMs * 2 || BACKOFF_MS_MIN, BACKOFF_MS_MAX);
            this.backoffUntil = Date.now() + this.backoffMs;
        }
    }

    private async warmUp(): Promise<void> {
        const { options } = this;
        const sandbox = await Sandbox.create({ ...options.creationSpec,
            connectionConfig: this.config, timeoutSeconds: options.idleTimeoutSeconds,
            readyTimeoutSeconds: options.warmupReadyTimeoutSeconds,
            healthCheckPollingInterval: options.warmupHealthCheckPollingInterval,
            skipHealthCheck: options.warmupSkipHealthCheck,
            ...(options.warmupHealthCheck ? { healthCheck: options.warmupHealthCheck } : {}) });
        try {
            await options.warmupSandboxPreparer?.(sandbox);
            const { expiresAt } = await sandbox.renew(options.idleTimeoutSeconds);
            const holds = await this.store.tryAcquirePrimaryLock(options.poolName,
                options.ownerId, options.primaryLockTtlSeconds * 1000);
            if (!holds || this.life !== "RUNNING")
                throw new PoolNotRunningException({ message: "the pool was handed on or shut down" });
            await this.store.putIdle(options.poolName, { sandboxId: sandbox.id,
                expiresAt: expiresAt?.getTime() ?? Date.now() + options.idleTimeoutSeconds * 1000 });
        } catch (error) {
            await sandbox.kill().catch(() => undefined);
            throw error;
        } finally {
            await sandbox.close();
        }
    }

    private async discard(ids: string[]): Promise<void> {
        const { manager } = this;
        if (manager)
            await Promise.all(ids.map((id) => manager.killSandbox(id).catch(() => undefined)));
    }

    /** A sandbox, which is the caller's from now on. */
    acquire(options: AcquireOptions = {}): Promise<Sandbox> {
        const operation = this.take(options);
        this.inFlight.add(operation);
        const done = (): void => {
            this.inFlight.delete(operation);
        };
        operation.then(done, done);
        return operation;
    }

    private async take(options: AcquireOptions): Promise<Sandbox> {
        if (this.life !== "RUNNING")
            throw new PoolNotRunningException(
                { message: `pool ${this.options.poolName} is ${this.life}` });
        const policy = options.policy ?? AcquirePolicy.DIRECT_CREATE;
        const { sandboxId, discarded } = await this.store.tryTakeIdle(this.options.poolName,
            this.minRemainingMs());
        void this.discard(discarded);
        this.reconcileSoon();
        if (sandboxId === undefined) {
            if (policy === AcquirePolicy.FAIL_FAST)
                throw new PoolEmptyException(
                    { message: `pool ${this.options.poolName} has no idle sandbox` });
            return this.fresh(options);
        }
        try {
            return await this.connect(sandboxId, options);
        } catch (cause) {
            void this.discard([sandboxId]);
            options.signal?.throwIfAborted();
            if (policy === AcquirePolicy.FAIL_FAST)
                throw new PoolAcquireFailedException({ cause,
                    message: `idle sandbox ${sandboxId} does not answer: ${messageOf(cause)}` });
            return this.fresh(options);
        }
    }

    private async connect(sandboxId: string, options: AcquireOptions): Promise<Sandbox> {
        const pool = this.options;
        const sandbox = await Sandbox.connect({ sandboxId, connectionConfig: this.config,
            readyTimeoutSeconds: pool.acquireReadyTimeoutSeconds,
            healthCheckPollingInterval: pool.acquireHealthCheckPollingInterval,
            skipHealthCheck: pool.acquireSkipHealthCheck,
            ...(pool.acquireHealthCheck ? { healthCheck: pool.acquireHealthCheck } : {}),
            ...(options.signal ? { signal: options.signal } : {}) });
        try {
            if (options.sandboxTimeoutSeconds !== undefined)
                await sandbox.renew(options.sandboxTimeoutSeconds);
            return sandbox;
        } catch (error) {
            await sandbox.close();
            throw error;
        }
    }

    private fresh(options: AcquireOptions): Promise<Sandbox> {
        const pool = this.options;
        return Sandbox.create({ ...pool.creationSpec, connectionConfig: this.config,
            readyTimeoutSeconds: pool.acquireReadyTimeoutSeconds,
            healthCheckPollingInterval: pool.acquireHealthCheckPollingInterval,
            skipHealthCheck: pool.acquireSkipHealthCheck,
            ...(pool.acquireHealthCheck ? { healthCheck: pool.acquireHealthCheck } : {}),
            ...(options.sandboxTimeoutSeconds === undefined ? {}
                : { timeoutSeconds: options.sandboxTimeoutSeconds }),
            ...(options.signal ? { signal: options.signal } : {}) });
    }

    /** Changes how many idle sandboxes are kept. */
    async resize(maxIdle: number): Promise<void> {
        if (!Number.isInteger(maxIdle) || maxIdle < 0)
            throw invalid("maxIdle must be a whole number that is not negative");
        await this.store.setMaxIdle(this.options.poolName, maxIdle);
        this.reconcileSoon();
    }

    /** Kills the idle sandboxes and says how many there were. */
    async releaseAllIdle(): Promise<number> {
        const manager = this.manager ?? SandboxManager.create({ connectionConfig: this.config });
        let count = 0;
        for (;;) {
            const { sandboxId, discarded } = await this.store.tryTakeIdle(this.options.poolName, 0);
            const ids = [...discarded, ...(sandboxId ? [sandboxId] : [])];
            if (ids.length === 0)
                break;
            await Promise.all(ids.map((id) => manager.killSandbox(id).catch(() => undefined)));
            count += ids.length;
        }
        if (manager !== this.manager)
            await manager.close();
        return count;
    }

    async snapshot(): Promise<PoolSnapshot> {
        const { poolName, maxIdle, degradedThreshold } = this.options;
        const running = this.failures >= degradedThreshold ? "DEGRADED" : "HEALTHY";
        return {
            state: this.life === "DRAINING" || this.life === "STOPPED" ? this.life : running,
            lifecycleState: this.life, failureCount: this.failures,
            idleCount: (await this.store.snapshotIdleEntries(poolName)).length,
            maxIdle: await this.store.getMaxIdle(poolName) ?? maxIdle,
            backoffActive: Date.now() < this.backoffUntil,
            inFlightOperations: this.inFlight.size,
            ...(this.lastError === undefined ? {} : { lastError: this.lastError }),
        };
    }

    snapshotIdleEntries(): Promise<IdleEntry[]> {
        return this.store.snapshotIdleEntries(this.options.poolName);
    }

    /**
     * Stops. Idle sandboxes stay for others that share the store, unless `releaseIdle`, which is the
     * default for a store in memory: nobody else could use them.
     */
    async shutdown(graceful = true, releaseIdle = this.store instanceof InMemoryPoolStateStore,
    ): Promise<void> {
        if (this.life === "STOPPED" || this.life === "NOT_STARTED") {
            this.life = "STOPPED";
            return;
        }
        this.life = "DRAINING";
        clearTimeout(this.timer);
        if (graceful) {
            const late = new Promise<void>((resolve) => {
                const timer = setTimeout(resolve, this.options.drainTimeoutSeconds * 1000);
                (timer as { unref?: () => void }).unref?.();
            });
            await Promise.race([Promise.allSettled([...this.inFlight, this.working]), late]);
        }
        if (releaseIdle)
            await this.releaseAllIdle();
        await this.store.releasePrimaryLock(this.options.poolName, this.options.ownerId);
        await this.manager?.close();
        this.manager = undefined;
        this.life = "STOPPED";
    }
}
