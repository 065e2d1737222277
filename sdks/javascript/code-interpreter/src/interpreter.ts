import { DEFAULT_EXECD_PORT, type Sandbox } from "@alibaba-group/opensandbox";

import { createDefaultAdapterFactory, type AdapterFactory } from "./factory.js";
import type { Codes } from "./models.js";

export interface CodeInterpreterCreateOptions {
    adapterFactory?: AdapterFactory;
}

/** Runs code in a sandbox that exists already. */
export class CodeInterpreter {
    private constructor(readonly sandbox: Sandbox, readonly codes: Codes) {}

    static async create(sandbox: Sandbox, opts: CodeInterpreterCreateOptions = {},
    ): Promise<CodeInterpreter> {
        const { endpoint, headers } = await sandbox.getEndpoint(DEFAULT_EXECD_PORT);
        const factory = opts.adapterFactory ?? createDefaultAdapterFactory();
        return new CodeInterpreter(sandbox, factory.createCodes({ sandbox,
            execdBaseUrl: sandbox.connectionConfig.endpointUrl(endpoint),
            ...(headers ? { endpointHeaders: headers } : {}) }));
    }

    get id(): string {
        return this.sandbox.id;
    }

    get files(): Sandbox["files"] {
        return this.sandbox.files;
    }

    get commands(): Sandbox["commands"] {
        return this.sandbox.commands;
    }

    get metrics(): Sandbox["metrics"] {
        return this.sandbox.metrics;
    }
}
