import type { CallOptions, Execution, ServerStreamEvent } from "@alibaba-group/opensandbox";
import {
    eventBatches, EventIterator, execute, invalid, needText, segment, type HttpClient, type wire,
} from "@alibaba-group/opensandbox/internal";

import type {
    CodeContext, Codes, CreateContextOptions, RunCodeOptions, RunCodeRequest, SupportedLanguage,
} from "./models.js";

const DEFAULT_LANGUAGE = "python";

function callOf({ code, context, timeoutSeconds }: RunCodeRequest, signal?: AbortSignal) {
    needText("code", code);
    if (timeoutSeconds !== undefined && !(timeoutSeconds >= 0))
        throw invalid("timeoutSeconds must be a number that is not negative");
    const { id, language } = context ?? { language: DEFAULT_LANGUAGE };
    const json: wire.RunCodeRequest = {
        code, context: { ...(id === undefined ? {} : { id }), language },
        ...(timeoutSeconds === undefined ? {} : { timeout: Math.round(timeoutSeconds * 1000) }),
    };
    return { path: "/code", json, signal, retry: false, what: "the code" };
}

export class CodesAdapter implements Codes {
    constructor(private readonly client: HttpClient) {}

    async createContext(language: SupportedLanguage | (string & {}),
        options: CreateContextOptions = {}): Promise<CodeContext> {
        needText("language", language);
        const { signal, ...more } = options;
        return this.client.json<CodeContext>({ method: "POST", path: "/code/context", signal,
            json: { language, ...more } });
    }

    async getContext(contextId: string, options: CallOptions = {}): Promise<CodeContext> {
        needText("context id", contextId);
        return this.client.json<CodeContext>(
            { path: `/code/contexts/${segment(contextId)}`, signal: options.signal });
    }

    async listContexts(language?: SupportedLanguage | (string & {}), options: CallOptions = {},
    ): Promise<CodeContext[]> {
        return this.client.json<CodeContext[]>(
            { path: "/code/contexts", query: { language }, signal: options.signal });
    }

    async deleteContext(contextId: string, options: CallOptions = {}): Promise<void> {
        needText("context id", contextId);
        await this.client.send({ method: "DELETE", path: `/code/contexts/${segment(contextId)}`,
            signal: options.signal });
    }

    async deleteContexts(language: SupportedLanguage | (string & {}), options: CallOptions = {},
    ): Promise<void> {
        needText("language", language);
        await this.client.send({ method: "DELETE", path: "/code/contexts", query: { language },
            signal: options.signal });
    }

    run(code: string, options: RunCodeOptions = {}): Promise<Execution> {
        const { context, language, handlers, signal, timeoutSeconds } = options;
        if (context !== undefined && language !== undefined)
            return Promise.reject(invalid("give a context or a language, not both"));
        try {
            return execute(this.client, callOf({ code,
                context: context ?? { language: language ?? DEFAULT_LANGUAGE },
                ...(timeoutSeconds === undefined ? {} : { timeoutSeconds }) }, signal), handlers);
        } catch (error) {
            return Promise.reject(error as Error);
        }
    }

    runStream(request: RunCodeRequest, signal?: AbortSignal,
    ): AsyncIterableIterator<ServerStreamEvent> {
        return new EventIterator(eventBatches(this.client, callOf(request, signal)));
    }

    async interrupt(contextId: string, options: CallOptions = {}): Promise<void> {
        needText("context id", contextId);
        await this.client.send({ method: "DELETE", path: "/code", query: { id: contextId },
            signal: options.signal });
    }
}
