package opensandbox

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// States of a sandbox. A server may send others; treat those as "not running".
const (
	StatePending    = "Pending"
	StateRunning    = "Running"
	StatePausing    = "Pausing"
	StatePaused     = "Paused"
	StateStopping   = "Stopping"
	StateTerminated = "Terminated"
	StateFailed     = "Failed"
)

// States of a snapshot.
const (
	SnapshotStateCreating = "Creating"
	SnapshotStateDeleting = "Deleting"
	SnapshotStateReady    = "Ready"
	SnapshotStateFailed   = "Failed"
)

// MetadataPatch changes metadata: a nil value removes the key.
type MetadataPatch map[string]*string

// ListOptions selects sandboxes: any of States, all of Metadata. Pages count from 1.
type ListOptions struct {
	States   []string
	Metadata map[string]string
	Page     int
	PageSize int
}

// ListSnapshotsOptions selects snapshots.
type ListSnapshotsOptions struct {
	SandboxID string
	States    []string
	Page      int
	PageSize  int
}

// LifecycleClient speaks the lifecycle API.
type LifecycleClient struct{ *Client }

// NewLifecycleClient returns a client of the lifecycle API at baseURL, which ends in /v1.
func NewLifecycleClient(baseURL, apiKey string, opts ...Option) *LifecycleClient {
	return &LifecycleClient{NewClient(baseURL, apiKey, defaultAuthHeader, opts...)}
}

func newLifecycleClient(config ConnectionConfig, client *http.Client) *LifecycleClient {
	return NewLifecycleClient(config.GetBaseURL(), config.GetAPIKey(),
		append(config.clientOptions(client), WithAuthHeader(config.GetAuthHeader()))...)
}

func sandboxPath(id string, more ...string) string {
	return "/sandboxes/" + url.PathEscape(id) + strings.Join(more, "")
}

// CreateSandbox asks for a sandbox; it may be Pending when this returns.
func (c *LifecycleClient) CreateSandbox(ctx context.Context, req CreateSandboxRequest,
) (*SandboxInfo, error) {
	var out SandboxInfo
	return result(&out, c.post(ctx, "/sandboxes", req, &out))
}

const idempotencyKeyMax = 255

// CreateSandboxWithKey does the same, at most once: a second call with the key and the same request
// returns the sandbox of the first, for a day. So it is repeated like a GET.
func (c *LifecycleClient) CreateSandboxWithKey(ctx context.Context, key string, req CreateSandboxRequest,
) (*SandboxInfo, error) {
	if err := firstError(needText("IdempotencyKey", key), checkKey(key)); err != nil {
		return nil, err
	}
	var out SandboxInfo
	return result(&out, c.do(ctx, &request{method: http.MethodPost, path: "/sandboxes", body: req,
		headers: map[string]string{"Idempotency-Key": key}, idempotent: true}, &out))
}

// GetSandbox returns what the server knows of a sandbox.
func (c *LifecycleClient) GetSandbox(ctx context.Context, id string) (*SandboxInfo, error) {
	var out SandboxInfo
	if err := needText("sandbox id", id); err != nil {
		return nil, err
	}
	return result(&out, c.get(ctx, sandboxPath(id), nil, &out))
}

// ListSandboxes returns one page.
func (c *LifecycleClient) ListSandboxes(ctx context.Context, opts ListOptions,
) (*ListSandboxesResponse, error) {
	query, err := pageQuery(opts.States, opts.Page, opts.PageSize)
	if err != nil {
		return nil, err
	}
	if len(opts.Metadata) > 0 {
		pairs := url.Values{}
		for key, value := range opts.Metadata {
			pairs.Set(key, value)
		}
		query.Set("metadata", pairs.Encode())
	}
	var out ListSandboxesResponse
	return result(&out, c.get(ctx, "/sandboxes", query, &out))
}

func pageQuery(states []string, page, pageSize int) (url.Values, error) {
	query := url.Values{}
	for _, state := range states {
		query.Add("state", state)
	}
	if page < 0 || pageSize < 0 {
		return nil, &InvalidArgumentError{Field: "page", Message: "and page size must not be negative"}
	}
	if page > 0 {
		query.Set("page", strconv.Itoa(page))
	}
	if pageSize > 0 {
		query.Set("pageSize", strconv.Itoa(pageSize))
	}
	return query, nil
}

// DeleteSandbox ends a sandbox.
func (c *LifecycleClient) DeleteSandbox(ctx context.Context, id string) error {
	if err := needText("sandbox id", id); err != nil {
		return err
	}
	return c.delete(ctx, sandboxPath(id), nil)
}

// PauseSandbox freezes the processes of a sandbox.
func (c *LifecycleClient) PauseSandbox(ctx context.Context, id string) error {
	return c.post(ctx, sandboxPath(id, "/pause"), nil, nil)
}

// ResumeSandbox lets a paused sandbox go on.
func (c *LifecycleClient) ResumeSandbox(ctx context.Context, id string) error {
	return c.post(ctx, sandboxPath(id, "/resume"), nil, nil)
}

// RenewExpiration sets when a sandbox ends.
func (c *LifecycleClient) RenewExpiration(ctx context.Context, id string, at time.Time,
) (*RenewResponse, error) {
	var out RenewResponse
	return result(&out, c.post(ctx, sandboxPath(id, "/renew-expiration"),
		RenewRequest{ExpiresAt: at.UTC().Format(time.RFC3339Nano)}, &out))
}

// PatchMetadata changes keys of the metadata.
func (c *LifecycleClient) PatchMetadata(ctx context.Context, id string, patch MetadataPatch,
) (*SandboxInfo, error) {
	var out SandboxInfo
	return result(&out, c.do(ctx, &request{method: http.MethodPatch,
		path: sandboxPath(id, "/metadata"), body: patch}, &out))
}

// GetEndpoint returns the address of a port of a sandbox and the headers that requests to it need.
func (c *LifecycleClient) GetEndpoint(ctx context.Context, id string, port int, useServerProxy bool,
) (*Endpoint, error) {
	query := url.Values{"use_server_proxy": {strconv.FormatBool(useServerProxy)}}
	return c.endpoint(ctx, id, port, query)
}

// GetSignedEndpoint returns an address that works without headers until it expires.
func (c *LifecycleClient) GetSignedEndpoint(ctx context.Context, id string, port int,
	expires time.Time, useServerProxy bool) (*Endpoint, error) {
	query := url.Values{"use_server_proxy": {strconv.FormatBool(useServerProxy)},
		"expires": {strconv.FormatInt(expires.Unix(), 10)}}
	return c.endpoint(ctx, id, port, query)
}

func (c *LifecycleClient) endpoint(ctx context.Context, id string, port int, query url.Values,
) (*Endpoint, error) {
	if port < 1 || port > 65535 {
		return nil, &InvalidArgumentError{Field: "port", Message: "must be 1 to 65535"}
	}
	var out Endpoint
	return result(&out, c.get(ctx, sandboxPath(id, "/endpoints/", strconv.Itoa(port)), query, &out))
}

// CreateSnapshot asks for a snapshot; WaitForSnapshot waits until it is ready.
func (c *LifecycleClient) CreateSnapshot(ctx context.Context, id string, req CreateSnapshotRequest,
) (*SnapshotInfo, error) {
	var out SnapshotInfo
	return result(&out, c.post(ctx, sandboxPath(id, "/snapshots"), req, &out))
}

// GetSnapshot returns what the server knows of a snapshot.
func (c *LifecycleClient) GetSnapshot(ctx context.Context, id string) (*SnapshotInfo, error) {
	var out SnapshotInfo
	return result(&out, c.get(ctx, "/snapshots/"+url.PathEscape(id), nil, &out))
}

// ListSnapshots returns one page.
func (c *LifecycleClient) ListSnapshots(ctx context.Context, opts ListSnapshotsOptions,
) (*ListSnapshotsResponse, error) {
	query, err := pageQuery(opts.States, opts.Page, opts.PageSize)
	if err != nil {
		return nil, err
	}
	if opts.SandboxID != "" {
		query.Set("sandboxId", opts.SandboxID)
	}
	var out ListSnapshotsResponse
	return result(&out, c.get(ctx, "/snapshots", query, &out))
}

// DeleteSnapshot removes a snapshot.
func (c *LifecycleClient) DeleteSnapshot(ctx context.Context, id string) error {
	return c.delete(ctx, "/snapshots/"+url.PathEscape(id), nil)
}

// result returns out unless the call failed.
func result[T any](out *T, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	return out, nil
}
