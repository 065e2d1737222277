package opensandbox

import (
	"context"
	"net/http"
	"time"
)

// SandboxManager lists and changes sandboxes by id, without connecting to them.
type SandboxManager struct {
	*LifecycleClient
	http *http.Client
	own  bool // the client was made here
}

// NewSandboxManager returns a manager. A wrong setting is reported by its first call.
func NewSandboxManager(config ConnectionConfig) *SandboxManager {
	client := config.httpClient()
	return &SandboxManager{newLifecycleClient(config, client), client, config.HTTPClient == nil}
}

// ListSandboxInfos returns one page of sandboxes.
func (m *SandboxManager) ListSandboxInfos(ctx context.Context, opts ListOptions,
) (*ListSandboxesResponse, error) {
	return m.ListSandboxes(ctx, opts)
}

// GetSandboxInfo returns what the server knows of a sandbox.
func (m *SandboxManager) GetSandboxInfo(ctx context.Context, id string) (*SandboxInfo, error) {
	return m.GetSandbox(ctx, id)
}

// PatchSandboxMetadata changes keys of the metadata.
func (m *SandboxManager) PatchSandboxMetadata(ctx context.Context, id string, patch MetadataPatch,
) (*SandboxInfo, error) {
	return m.PatchMetadata(ctx, id, patch)
}

// KillSandbox ends a sandbox for good.
func (m *SandboxManager) KillSandbox(ctx context.Context, id string) error {
	return m.DeleteSandbox(ctx, id)
}

// RenewSandbox makes a sandbox expire a duration from now.
func (m *SandboxManager) RenewSandbox(ctx context.Context, id string, after time.Duration,
) (*RenewResponse, error) {
	return m.RenewExpiration(ctx, id, time.Now().Add(after))
}

// Close frees idle connections.
func (m *SandboxManager) Close() error {
	if m.own {
		m.http.CloseIdleConnections()
	}
	return nil
}
