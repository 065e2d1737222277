import type { Sandbox } from "@alibaba-group/opensandbox";

import { CodesAdapter } from "./codes.js";
import type { Codes } from "./models.js";

export interface CreateCodesStackOptions {
    sandbox: Sandbox;
    execdBaseUrl: string;
    endpointHeaders?: Record<string, string>;
}

/** What the interpreter speaks through. A program may replace it. */
export interface AdapterFactory {
    createCodes(opts: CreateCodesStackOptions): Codes;
}

export class DefaultAdapterFactory implements AdapterFactory {
    createCodes(opts: CreateCodesStackOptions): Codes {
        return new CodesAdapter(opts.sandbox.connectionConfig.sandboxClient(opts.execdBaseUrl,
            opts.endpointHeaders, () => opts.sandbox.getInfo()));
    }
}

export function createDefaultAdapterFactory(): AdapterFactory {
    return new DefaultAdapterFactory();
}
