import { abortReason, throwIfAborted } from "./transport.js";

/** Waits, unless the signal ends it. */
export function sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
        throwIfAborted(signal);
        const abort = (): void => {
            clearTimeout(timer);
            reject(abortReason(signal!) as Error);
        };
        const timer = setTimeout(() => {
            signal?.removeEventListener("abort", abort);
            resolve();
        }, milliseconds);
        signal?.addEventListener("abort", abort, { once: true });
    });
}

const PAUSE_MS_MAX = 1000;

/** Pauses between looks at something that changes soon: 10 ms, 20 ms, and so on up to a second. */
export class Pauses {
    private next: number;

    constructor(first = 10, private readonly max = PAUSE_MS_MAX) {
        this.next = Math.min(first, max);
    }

    async wait(signal?: AbortSignal, leftMs = Infinity): Promise<void> {
        const pause = Math.max(0, Math.min(this.next, leftMs));
        this.next = Math.min(this.next * 2, this.max);
        await sleep(pause, signal);
    }
}
