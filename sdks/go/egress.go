package opensandbox

import (
	"context"
	"net/http"
	"net/url"
)

const egressTokenHeader = "OPENSANDBOX-EGRESS-AUTH"

// EgressClient speaks to the egress engine of a sandbox: its network policy and its credential vault.
type EgressClient struct{ *Client }

// NewEgressClient returns a client of the egress API at baseURL; the token may be empty.
func NewEgressClient(baseURL, authToken string, opts ...Option) *EgressClient {
	return &EgressClient{NewClient(baseURL, authToken, egressTokenHeader, opts...)}
}

// PolicyStatusResponse is the policy in force and how it is enforced.
type PolicyStatusResponse struct {
	Status          string         `json:"status"`
	Mode            string         `json:"mode"`
	EnforcementMode string         `json:"enforcementMode"`
	Reason          string         `json:"reason"`
	Policy          *NetworkPolicy `json:"policy"`
}

// GetPolicy returns the policy in force.
func (c *EgressClient) GetPolicy(ctx context.Context) (*PolicyStatusResponse, error) {
	var out PolicyStatusResponse
	return result(&out, c.get(ctx, "/policy", nil, &out))
}

// PatchRules merges rules into the policy: a rule replaces the one with the same target.
func (c *EgressClient) PatchRules(ctx context.Context, rules []NetworkRule,
) (*PolicyStatusResponse, error) {
	if err := checkRules(rules); err != nil {
		return nil, err
	}
	var out PolicyStatusResponse
	return result(&out, c.do(ctx, &request{method: http.MethodPatch, path: "/policy", body: rules},
		&out))
}

func checkRules(rules []NetworkRule) error {
	for _, rule := range rules {
		if err := needText("target", rule.Target); err != nil {
			return err
		}
	}
	return nil
}

// DeleteRules removes the rules of the targets; unknown targets are ignored.
func (c *EgressClient) DeleteRules(ctx context.Context, targets []string,
) (*PolicyStatusResponse, error) {
	var out PolicyStatusResponse
	return result(&out, c.do(ctx, &request{method: http.MethodDelete, path: "/policy", body: targets},
		&out))
}

// Types of the credential vault. Secret values are sent and never come back.
type (
	// CredentialSource holds a secret; Type is "inline".
	CredentialSource struct {
		Type  string `json:"type"`
		Value string `json:"value"`
	}
	// Credential is a secret with a name.
	Credential struct {
		Name   string           `json:"name"`
		Source CredentialSource `json:"source"`
	}
	// CredentialMatch selects the requests that get a credential.
	CredentialMatch struct {
		Schemes []string `json:"schemes,omitempty"`
		Ports   []int    `json:"ports,omitempty"`
		Hosts   []string `json:"hosts"`
		Methods []string `json:"methods,omitempty"`
		Paths   []string `json:"paths,omitempty"`
	}
	// CustomHeaderEntry is a header whose value is a credential.
	CustomHeaderEntry struct {
		Name       string `json:"name"`
		Credential string `json:"credential"`
	}
	// CredentialAuth says how a credential is sent: bearer, basic, apiKey or customHeaders.
	CredentialAuth struct {
		Type       string              `json:"type"`
		Credential string              `json:"credential,omitempty"`
		Name       string              `json:"name,omitempty"`
		Headers    []CustomHeaderEntry `json:"headers,omitempty"`
	}
	// CredentialBinding ties credentials to requests.
	CredentialBinding struct {
		Name  string          `json:"name"`
		Match CredentialMatch `json:"match"`
		Auth  CredentialAuth  `json:"auth"`
	}
	// CredentialVaultCreateRequest fills a vault.
	CredentialVaultCreateRequest struct {
		Credentials []Credential        `json:"credentials"`
		Bindings    []CredentialBinding `json:"bindings"`
	}
	// CredentialMutationSet changes credentials.
	CredentialMutationSet struct {
		Add     []Credential `json:"add,omitempty"`
		Replace []Credential `json:"replace,omitempty"`
		Delete  []string     `json:"delete,omitempty"`
	}
	// CredentialBindingMutationSet changes bindings.
	CredentialBindingMutationSet struct {
		Add     []CredentialBinding `json:"add,omitempty"`
		Replace []CredentialBinding `json:"replace,omitempty"`
		Delete  []string            `json:"delete,omitempty"`
	}
	// CredentialVaultPatchRequest changes a vault at once, if it has the expected revision.
	CredentialVaultPatchRequest struct {
		ExpectedRevision *int64                        `json:"expectedRevision,omitempty"`
		Credentials      *CredentialMutationSet        `json:"credentials,omitempty"`
		Bindings         *CredentialBindingMutationSet `json:"bindings,omitempty"`
	}
	// CredentialMetadata is a credential without its secret.
	CredentialMetadata struct {
		Name       string `json:"name"`
		SourceType string `json:"sourceType"`
		Revision   int64  `json:"revision"`
	}
	// CredentialAuthMetadata is how a binding sends its credential.
	CredentialAuthMetadata struct {
		Type string `json:"type"`
		Name string `json:"name,omitempty"`
	}
	// CredentialBindingMetadata is a binding as the server shows it.
	CredentialBindingMetadata struct {
		Name     string                 `json:"name"`
		Revision int64                  `json:"revision"`
		Match    CredentialMatch        `json:"match"`
		Auth     CredentialAuthMetadata `json:"auth"`
	}
	// CredentialVaultState is all of a vault but its secrets.
	CredentialVaultState struct {
		Revision    int64                       `json:"revision"`
		Credentials []CredentialMetadata        `json:"credentials"`
		Bindings    []CredentialBindingMetadata `json:"bindings"`
	}
)

const vaultPath = "/credential-vault"

// CreateVault fills the vault.
func (c *EgressClient) CreateVault(ctx context.Context, req CredentialVaultCreateRequest,
) (*CredentialVaultState, error) {
	if req.Credentials == nil {
		req.Credentials = []Credential{}
	}
	if req.Bindings == nil {
		req.Bindings = []CredentialBinding{}
	}
	var out CredentialVaultState
	return result(&out, c.post(ctx, vaultPath, req, &out))
}

// GetVault returns the vault without its secrets.
func (c *EgressClient) GetVault(ctx context.Context) (*CredentialVaultState, error) {
	var out CredentialVaultState
	return result(&out, c.get(ctx, vaultPath, nil, &out))
}

// PatchVault changes the vault, all of it or nothing.
func (c *EgressClient) PatchVault(ctx context.Context, req CredentialVaultPatchRequest,
) (*CredentialVaultState, error) {
	var out CredentialVaultState
	return result(&out, c.do(ctx, &request{method: http.MethodPatch, path: vaultPath, body: req}, &out))
}

// DeleteVault empties the vault.
func (c *EgressClient) DeleteVault(ctx context.Context) error {
	return c.delete(ctx, vaultPath, nil)
}

// ListCredentials returns the names of the secrets.
func (c *EgressClient) ListCredentials(ctx context.Context) ([]CredentialMetadata, error) {
	var out struct {
		Credentials []CredentialMetadata `json:"credentials"`
	}
	err := c.get(ctx, vaultPath+"/credentials", nil, &out)
	return out.Credentials, err
}

// GetCredential returns one of them.
func (c *EgressClient) GetCredential(ctx context.Context, name string) (*CredentialMetadata, error) {
	var out CredentialMetadata
	return result(&out, c.get(ctx, vaultPath+"/credentials/"+url.PathEscape(name), nil, &out))
}

// ListBindings returns the bindings.
func (c *EgressClient) ListBindings(ctx context.Context) ([]CredentialBindingMetadata, error) {
	var out struct {
		Bindings []CredentialBindingMetadata `json:"bindings"`
	}
	err := c.get(ctx, vaultPath+"/bindings", nil, &out)
	return out.Bindings, err
}

// GetBinding returns one of them.
func (c *EgressClient) GetBinding(ctx context.Context, name string,
) (*CredentialBindingMetadata, error) {
	var out CredentialBindingMetadata
	return result(&out, c.get(ctx, vaultPath+"/bindings/"+url.PathEscape(name), nil, &out))
}
