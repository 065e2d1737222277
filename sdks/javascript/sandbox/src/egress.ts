// egress.ts - the network policy and the credential vault of a sandbox.
import { needText } from "./exceptions.js";
import { segment, type HttpClient } from "./http.js";
import type {
    CallOptions, CredentialBindingListResponse, CredentialBindingMetadata, CredentialListResponse,
    CredentialMetadata, CredentialVaultCreateRequest, CredentialVaultPatchRequest,
    CredentialVaultState, NetworkPolicy, NetworkRule, PolicyStatus,
} from "./models.js";
import type { CredentialVault, Egress } from "./services.js";

const VAULT = "/credential-vault";

export class EgressAdapter implements Egress {
    constructor(private readonly client: HttpClient) {}

    async getStatus(options: CallOptions = {}): Promise<PolicyStatus> {
        return this.client.json<PolicyStatus>(
            { path: "/policy", signal: options.signal });
    }

    async getPolicy(options: CallOptions = {}): Promise<NetworkPolicy> {
        return (await this.getStatus(options)).policy ?? {};
    }

    async patchRules(rules: NetworkRule[], options: CallOptions = {}): Promise<void> {
        await this.client.send(
            { method: "PATCH", path: "/policy", json: rules, signal: options.signal });
    }

    async deleteRules(targets: string[], options: CallOptions = {}): Promise<void> {
        await this.client.send(
            { method: "DELETE", path: "/policy", json: targets, signal: options.signal });
    }
}

// The type of a source may be left out: there is one.
function typed<T extends { source: { type?: "inline"; value: string } }>(credential: T): T {
    return { ...credential, source: { ...credential.source, type: "inline" } };
}

export class CredentialVaultAdapter implements CredentialVault {
    constructor(private readonly client: HttpClient) {}

    async create(request: CredentialVaultCreateRequest, options: CallOptions = {},
    ): Promise<CredentialVaultState> {
        const json = { ...request, credentials: (request.credentials ?? []).map(typed),
            bindings: request.bindings ?? [] };
        return this.client.json(
            { method: "POST", path: VAULT, json, signal: options.signal });
    }

    async get(options: CallOptions = {}): Promise<CredentialVaultState> {
        return this.client.json({ path: VAULT, signal: options.signal });
    }

    async patch(request: CredentialVaultPatchRequest, options: CallOptions = {},
    ): Promise<CredentialVaultState> {
        const { credentials } = request;
        const json = { ...request, ...(credentials ? { credentials: { ...credentials,
            ...(credentials.add ? { add: credentials.add.map(typed) } : {}),
            ...(credentials.replace ? { replace: credentials.replace.map(typed) } : {}),
        } } : {}) };
        return this.client.json(
            { method: "PATCH", path: VAULT, json, signal: options.signal });
    }

    async delete(options: CallOptions = {}): Promise<void> {
        await this.client.send(
            { method: "DELETE", path: VAULT, signal: options.signal });
    }

    async listCredentials(options: CallOptions = {}): Promise<CredentialMetadata[]> {
        const { credentials } = await this.client.json<CredentialListResponse>(
            { path: `${VAULT}/credentials`, signal: options.signal });
        return credentials ?? [];
    }

    async getCredential(name: string, options: CallOptions = {}): Promise<CredentialMetadata> {
        needText("name", name);
        return this.client.json(
            { path: `${VAULT}/credentials/${segment(name)}`, signal: options.signal });
    }

    async listBindings(options: CallOptions = {}): Promise<CredentialBindingMetadata[]> {
        const { bindings } = await this.client
            .json<CredentialBindingListResponse>(
                { path: `${VAULT}/bindings`, signal: options.signal });
        return bindings ?? [];
    }

    async getBinding(name: string, options: CallOptions = {}): Promise<CredentialBindingMetadata> {
        needText("name", name);
        return this.client.json(
            { path: `${VAULT}/bindings/${segment(name)}`, signal: options.signal });
    }
}
