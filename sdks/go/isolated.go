package opensandbox

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

const isolatedPath = "/v1/isolated"

// IsolatedSession is a sandbox inside the sandbox: a shell with processes, mounts and, unless its
// workspace is "rw", a layer of its own for what it writes. It lives until Delete or until it has been
// idle for IdleTimeoutSeconds.
type IsolatedSession struct {
	execd *ExecdClient // whose paths begin with the session's
	info  IsolatedSessionState
}

// GetIsolationCapabilities tells whether isolated sessions can be made, and how.
func (c *ExecdClient) GetIsolationCapabilities(ctx context.Context) (*IsolatedCapabilities, error) {
	var out IsolatedCapabilities
	return result(&out, c.get(ctx, isolatedPath+"/capabilities", nil, &out))
}

// CreateIsolatedSession makes an isolated session. Delete it when it is not needed any more.
func (c *ExecdClient) CreateIsolatedSession(ctx context.Context, req CreateIsolatedSessionRequest,
) (*IsolatedSession, error) {
	if (req.Workspace == nil) == (len(req.Overlays) == 0) {
		return nil, &InvalidArgumentError{Field: "Workspace", Message: "or Overlays must be set, not both"}
	}
	var info IsolatedSessionState
	if err := c.post(ctx, isolatedPath+"/session", req, &info); err != nil {
		return nil, err
	}
	return c.isolatedSession(info), nil
}

// AttachIsolatedSession returns an isolated session that is there already.
func (c *ExecdClient) AttachIsolatedSession(ctx context.Context, id string) (*IsolatedSession, error) {
	if err := needText("session id", id); err != nil {
		return nil, err
	}
	session := c.isolatedSession(IsolatedSessionState{SessionID: id})
	info, err := session.State(ctx)
	if err != nil {
		return nil, err
	}
	session.info = *info
	return session, nil
}

// ListIsolatedSessions returns all isolated sessions, in no order.
func (c *ExecdClient) ListIsolatedSessions(ctx context.Context) ([]IsolatedSessionSummary, error) {
	var out ListIsolatedSessionsResponse
	err := c.get(ctx, isolatedPath+"/sessions", nil, &out)
	return out.Sessions, err
}

// RunIsolated runs shell code in an isolated session that is made for it and deleted afterwards.
func (c *ExecdClient) RunIsolated(ctx context.Context, session CreateIsolatedSessionRequest,
	run IsolatedRunRequest, handlers *ExecutionHandlers) (*Execution, error) {
	made, err := c.CreateIsolatedSession(ctx, session)
	if err != nil {
		return nil, err
	}
	done, err := made.Run(ctx, run, handlers)
	cleanup, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
	defer cancel()
	if left := made.Delete(cleanup); left != nil && err == nil {
		err = fmt.Errorf("opensandbox: isolated session %s is left: %w", made.ID(), left)
	}
	return done, err
}

func (c *ExecdClient) isolatedSession(info IsolatedSessionState) *IsolatedSession {
	below := *c.Client
	below.baseURL += isolatedPath + "/session/" + url.PathEscape(info.SessionID)
	return &IsolatedSession{execd: &ExecdClient{&below}, info: info}
}

// ID returns the id of the session.
func (s *IsolatedSession) ID() string { return s.info.SessionID }

// Info returns what the server said when the session was made or attached to.
func (s *IsolatedSession) Info() IsolatedSessionState { return s.info }

// Files returns a client whose file calls see what the session sees. It has the file calls only.
func (s *IsolatedSession) Files() *ExecdClient { return s.execd }

func checkIsolatedRun(req *IsolatedRunRequest) error {
	if req.Background {
		return &InvalidArgumentError{Field: "Background", Message: "is for RunBackground"}
	}
	return needText("code", req.Code)
}

// Run runs code in the shell of the session, which keeps its directory and variables, and waits for
// its end. A call that ends before interrupts the run.
func (s *IsolatedSession) Run(ctx context.Context, req IsolatedRunRequest,
	handlers *ExecutionHandlers) (*Execution, error) {
	if err := checkIsolatedRun(&req); err != nil {
		return nil, err
	}
	run, err := s.execd.execute(ctx, &request{method: http.MethodPost, path: "/run", body: req}, handlers,
		nil)
	if err == nil {
		setExitCode(run)
	}
	return run, err
}

// RunBackground starts code beside the session's shell and without its state.
func (s *IsolatedSession) RunBackground(ctx context.Context, req IsolatedRunRequest,
) (*IsolatedBackgroundRun, error) {
	if err := needText("code", req.Code); err != nil {
		return nil, err
	}
	req.Background = true
	var out IsolatedBackgroundRun
	return result(&out, s.execd.post(ctx, "/run", req, &out))
}

// GetRunStatus tells whether a background run goes on, and how it ended.
func (s *IsolatedSession) GetRunStatus(ctx context.Context, runID string) (*IsolatedRunStatus, error) {
	if err := needText("run id", runID); err != nil {
		return nil, err
	}
	var out IsolatedRunStatus
	return result(&out, s.execd.get(ctx, "/runs/"+url.PathEscape(runID), nil, &out))
}

// GetRunLogs returns output of a background run from cursor on; nil is the beginning.
func (s *IsolatedSession) GetRunLogs(ctx context.Context, runID string, cursor *int64,
) (*CommandLogsResponse, error) {
	if err := needText("run id", runID); err != nil {
		return nil, err
	}
	query := url.Values{}
	if cursor != nil {
		query.Set("cursor", strconv.FormatInt(*cursor, 10))
	}
	return s.execd.readLogs(ctx, "/runs/"+url.PathEscape(runID)+"/logs", query,
		"EXECD-ISOLATED-TAIL-CURSOR")
}

// State tells how the session fares.
func (s *IsolatedSession) State(ctx context.Context) (*IsolatedSessionState, error) {
	var out IsolatedSessionState
	return result(&out, s.execd.get(ctx, "", nil, &out))
}

// Diff returns what the session wrote into its layer, as tar in gzip. Close the reader.
func (s *IsolatedSession) Diff(ctx context.Context) (io.ReadCloser, error) {
	res, err := s.execd.open(ctx, &request{method: http.MethodGet, path: "/diff"})
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// CommitIsolatedRequest says what a commit does beyond writing into the workspace.
type CommitIsolatedRequest struct {
	Strategy        string `json:"strategy,omitempty"`          // "overwrite", the only one
	ResetUpperAfter bool   `json:"reset_upper_after,omitempty"` // the session begins anew, with an empty layer
}

// CommitIsolatedResponse tells what a commit did.
type CommitIsolatedResponse struct {
	FilesWritten int64 `json:"files_written"`
	PathsRemoved int64 `json:"paths_removed"`
	UpperReset   bool  `json:"upper_reset"`
}

// Commit writes what the session wrote into its layer into the workspace.
func (s *IsolatedSession) Commit(ctx context.Context, req CommitIsolatedRequest,
) (*CommitIsolatedResponse, error) {
	var out CommitIsolatedResponse
	return result(&out, s.execd.post(ctx, "/commit", req, &out))
}

// Delete ends the session and all that runs in it.
func (s *IsolatedSession) Delete(ctx context.Context) error { return s.execd.delete(ctx, "", nil) }
