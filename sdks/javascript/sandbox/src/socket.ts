/** A WebSocket as terminals need it. */
export interface Socket {
    send(data: string | Uint8Array): void;
    close(): void;
    onMessage: (data: string | Uint8Array) => void;
    /** Called once. Code 1006 says that the connection broke. */
    onClose: (code: number, reason: string) => void;
}

export interface SocketRequest {
    url: string;
    headers: Record<string, string>;
    timeoutMs: number;
    signal?: AbortSignal;
}
