package opensandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// This file has calls that not every OpenSandbox server offers: forks, rollback, persistent
// sandboxes, images, pools, diagnostics.

// Fork makes sandboxes of a running one's files.
func (c *LifecycleClient) Fork(ctx context.Context, id string, req ForkRequest,
) ([]SandboxInfo, error) {
	var out struct {
		Items []SandboxInfo `json:"items"`
	}
	err := c.post(ctx, sandboxPath(id, "/fork"), req, &out)
	return out.Items, err
}

// Rollback returns a sandbox to the files of a snapshot.
func (c *LifecycleClient) Rollback(ctx context.Context, id, snapshotID string) (*SandboxInfo, error) {
	var out SandboxInfo
	return result(&out, c.post(ctx, sandboxPath(id, "/rollback"),
		map[string]string{"snapshotId": snapshotID}, &out))
}

// StopSandbox ends the processes of a persistent sandbox and keeps its files.
func (c *LifecycleClient) StopSandbox(ctx context.Context, id string) error {
	return c.post(ctx, sandboxPath(id, "/stop"), nil, nil)
}

// StartSandbox starts a persistent sandbox again.
func (c *LifecycleClient) StartSandbox(ctx context.Context, id string) error {
	return c.post(ctx, sandboxPath(id, "/start"), nil, nil)
}

// GetDiagnosticLogs returns what a sandbox printed; scope is one that the server knows.
func (c *LifecycleClient) GetDiagnosticLogs(ctx context.Context, id, scope string,
) (*DiagnosticContent, error) {
	return c.diagnostics(ctx, id, "/diagnostics/logs", scope)
}

// GetDiagnosticEvents returns what happened to a sandbox.
func (c *LifecycleClient) GetDiagnosticEvents(ctx context.Context, id, scope string,
) (*DiagnosticContent, error) {
	return c.diagnostics(ctx, id, "/diagnostics/events", scope)
}

func (c *LifecycleClient) diagnostics(ctx context.Context, id, path, scope string,
) (*DiagnosticContent, error) {
	var out DiagnosticContent
	return result(&out, c.get(ctx, sandboxPath(id, path), url.Values{"scope": {scope}}, &out))
}

// WaitForSnapshot waits until a snapshot is Ready. A Failed one is an error with its reason.
func (c *LifecycleClient) WaitForSnapshot(ctx context.Context, id string) (*SnapshotInfo, error) {
	for pause := 20 * time.Millisecond; ; pause = longer(pause) {
		info, err := c.GetSnapshot(ctx, id)
		if err != nil {
			return nil, err
		}
		switch info.Status.State {
		case SnapshotStateReady:
			return info, nil
		case SnapshotStateFailed:
			return info, &SandboxUnhealthyError{SandboxID: info.SandboxID, Reason: fmt.Sprintf(
				"snapshot %s is Failed: %s: %s", id, info.Status.Reason, info.Status.Message)}
		}
		if err := sleep(ctx, pause); err != nil {
			return info, err
		}
	}
}

const pollPauseMax = time.Second

func longer(pause time.Duration) time.Duration {
	if pause *= 2; pause > pollPauseMax {
		return pollPauseMax
	}
	return pause
}

func sleep(ctx context.Context, length time.Duration) error {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// ListImages returns one page of the images that the server has.
func (c *LifecycleClient) ListImages(ctx context.Context, page, pageSize int) (*ImageList, error) {
	query, err := pageQuery(nil, page, pageSize)
	if err != nil {
		return nil, err
	}
	var out ImageList
	return result(&out, c.get(ctx, "/images", query, &out))
}

// GetImage returns an image by name or id.
func (c *LifecycleClient) GetImage(ctx context.Context, name string) (*StoredImage, error) {
	var out StoredImage
	return result(&out, c.get(ctx, "/images/"+url.PathEscape(name), nil, &out))
}

// PullProgress is how far a pull is; BytesTotal is 0 while it is not known.
type PullProgress struct {
	Message    string `json:"message"`
	BytesDone  int64  `json:"bytesDone"`
	BytesTotal int64  `json:"bytesTotal"`
}

// PullImage pulls an image from its registry; progress may be nil.
func (c *LifecycleClient) PullImage(ctx context.Context, req PullImageRequest,
	progress func(PullProgress)) (*StoredImage, error) {
	var done *StoredImage
	err := c.stream(ctx, &request{method: http.MethodPost, path: "/images/pull", body: req},
		func(event StreamEvent) error {
			var e struct {
				Type string `json:"type"`
				PullProgress
				Code  string       `json:"code"`
				Image *StoredImage `json:"image"`
			}
			if err := json.Unmarshal([]byte(event.Data), &e); err != nil {
				return fmt.Errorf("opensandbox: an event is not JSON: %w", err)
			}
			switch {
			case e.Type == "error":
				return &APIError{StatusCode: http.StatusOK,
					Response: ErrorResponse{Code: e.Code, Message: e.Message}}
			case e.Type == "done":
				done = e.Image
			case e.Type == "progress" && progress != nil:
				progress(e.PullProgress)
			}
			return nil
		})
	if err == nil && done == nil {
		err = ErrStreamEnded
	}
	return done, err
}

// ImportImage sends an image archive; name may be empty when the archive has one.
func (c *LifecycleClient) ImportImage(ctx context.Context, name string, archive io.Reader,
) (*StoredImage, error) {
	query := url.Values{}
	if name != "" {
		query.Set("name", name)
	}
	var out StoredImage
	return result(&out, c.do(ctx, &request{method: http.MethodPost, path: "/images/import",
		query: query, body: archive, contentType: "application/x-tar", noTimeout: true}, &out))
}

// ExportImage returns an image as an OCI archive. Close it.
func (c *LifecycleClient) ExportImage(ctx context.Context, name string) (io.ReadCloser, error) {
	res, err := c.open(ctx, &request{method: http.MethodGet,
		path: "/images/" + url.PathEscape(name) + "/export"})
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// DeleteImage removes an image that no sandbox uses.
func (c *LifecycleClient) DeleteImage(ctx context.Context, name string) error {
	return c.delete(ctx, "/images/"+url.PathEscape(name), nil)
}

// CreatePool makes a pool of sandboxes that are ready to be claimed.
func (c *LifecycleClient) CreatePool(ctx context.Context, req CreatePoolRequest) (*Pool, error) {
	var out Pool
	return result(&out, c.post(ctx, "/pools", req, &out))
}

// GetPool returns a pool.
func (c *LifecycleClient) GetPool(ctx context.Context, name string) (*Pool, error) {
	var out Pool
	return result(&out, c.get(ctx, "/pools/"+url.PathEscape(name), nil, &out))
}

// ListPools returns all pools.
func (c *LifecycleClient) ListPools(ctx context.Context) ([]Pool, error) {
	var out PoolList
	err := c.get(ctx, "/pools", nil, &out)
	return out.Items, err
}

// UpdatePool changes the capacity of a pool.
func (c *LifecycleClient) UpdatePool(ctx context.Context, name string, req UpdatePoolRequest,
) (*Pool, error) {
	var out Pool
	return result(&out, c.do(ctx, &request{method: http.MethodPut,
		path: "/pools/" + url.PathEscape(name), body: req}, &out))
}

// DeletePool removes a pool and the sandboxes that were not claimed.
func (c *LifecycleClient) DeletePool(ctx context.Context, name string) error {
	return c.delete(ctx, "/pools/"+url.PathEscape(name), nil)
}

// CreateVolume makes a named volume.
func (c *LifecycleClient) CreateVolume(ctx context.Context, req CreateVolumeRequest,
) (*NamedVolume, error) {
	var out NamedVolume
	return result(&out, c.post(ctx, "/volumes", req, &out))
}

// GetVolume returns a named volume.
func (c *LifecycleClient) GetVolume(ctx context.Context, name string) (*NamedVolume, error) {
	var out NamedVolume
	return result(&out, c.get(ctx, "/volumes/"+url.PathEscape(name), nil, &out))
}

// ListVolumes returns one page of the named volumes.
func (c *LifecycleClient) ListVolumes(ctx context.Context, page, pageSize int,
) (*NamedVolumeList, error) {
	query, err := pageQuery(nil, page, pageSize)
	if err != nil {
		return nil, err
	}
	var out NamedVolumeList
	return result(&out, c.get(ctx, "/volumes", query, &out))
}

// DeleteVolume removes a named volume that no sandbox mounts.
func (c *LifecycleClient) DeleteVolume(ctx context.Context, name string) error {
	return c.delete(ctx, "/volumes/"+url.PathEscape(name), nil)
}

// errNoMorePages is what a callback of EachSandbox returns to end the iteration without an error.
var errNoMorePages = errors.New("no more pages")

// EachSandbox calls take for every sandbox that opts selects, page by page.
func (c *LifecycleClient) EachSandbox(ctx context.Context, opts ListOptions,
	take func(SandboxInfo) error) error {
	for opts.Page = orDefault(opts.Page, 1); ; opts.Page++ {
		page, err := c.ListSandboxes(ctx, opts)
		if err != nil {
			return err
		}
		for _, info := range page.Items {
			if err := take(info); err != nil {
				if errors.Is(err, errNoMorePages) {
					return nil
				}
				return err
			}
		}
		if !page.Pagination.HasNextPage {
			return nil
		}
	}
}
