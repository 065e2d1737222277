declare module '@novnc/novnc' {
  /** What a connection goes over: a WebSocket, or anything that behaves like a data channel. */
  export interface Channel {
    binaryType: string;
    readyState: string | number;
    protocol: string;
    onopen: ((e: unknown) => void) | null;
    onmessage: ((e: {data: ArrayBuffer}) => void) | null;
    onclose: ((e: {code: number; reason: string}) => void) | null;
    onerror: ((e: unknown) => void) | null;
    send(data: ArrayBuffer | ArrayBufferView): void;
    close(): void;
  }
  export default class RFB extends EventTarget {
    constructor(target: Element, channel: Channel, options?: {credentials?: {password?: string}; shared?: boolean});
    scaleViewport: boolean;
    resizeSession: boolean;
    viewOnly: boolean;
    background: string;
    focus(): void;
    disconnect(): void;
    sendCtrlAltDel(): void;
    sendCredentials(c: {password: string}): void;
  }
}
