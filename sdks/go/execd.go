package opensandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

const execdTokenHeader = "X-EXECD-ACCESS-TOKEN"

// ExecdClient speaks to execd, the daemon inside a sandbox.
type ExecdClient struct{ *Client }

// NewExecdClient returns a client of the execd at baseURL; the token may be empty.
func NewExecdClient(baseURL, accessToken string, opts ...Option) *ExecdClient {
	return &ExecdClient{NewClient(baseURL, accessToken, execdTokenHeader, opts...)}
}

// As returns a client of the same execd whose file calls are those of a user of the sandbox.
func (c *ExecdClient) As(uid, gid int) *ExecdClient {
	as := *c.Client
	as.baseURL += fmt.Sprintf("/v1/filesystem/%d/%d", uid, gid)
	return &ExecdClient{&as}
}

// Ping reports an error unless execd answers.
func (c *ExecdClient) Ping(ctx context.Context) error { return c.get(ctx, "/ping", nil, nil) }

func checkCommand(req *RunCommandRequest) error {
	if len(req.Argv) == 0 {
		if err := needText("command", req.Command); err != nil {
			return err
		}
	}
	if req.GID != nil && req.UID == nil {
		return &InvalidArgumentError{Field: "gid", Message: "needs a uid"}
	}
	if (req.UID != nil && *req.UID < 0) || (req.GID != nil && *req.GID < 0) {
		return &InvalidArgumentError{Field: "uid", Message: "and gid must not be negative"}
	}
	return nil
}

// RunCommand runs a command and follows it to its end; a background command returns at once.
func (c *ExecdClient) RunCommand(ctx context.Context, req RunCommandRequest,
	handlers *ExecutionHandlers) (*Execution, error) {
	if err := checkCommand(&req); err != nil {
		return nil, err
	}
	follow := c
	if req.Background {
		follow = nil
	}
	run, err := c.execute(ctx, &request{method: http.MethodPost, path: "/command", body: req}, handlers,
		follow)
	if err == nil && !req.Background {
		setExitCode(run)
	}
	return run, err
}

// InterruptCommand ends a command.
func (c *ExecdClient) InterruptCommand(ctx context.Context, id string) error {
	return c.delete(ctx, "/command", url.Values{"id": {id}})
}

// GetCommandStatus tells whether a command runs, and how it ended.
func (c *ExecdClient) GetCommandStatus(ctx context.Context, id string) (*CommandStatus, error) {
	var out CommandStatus
	return result(&out, c.get(ctx, "/command/status/"+url.PathEscape(id), nil, &out))
}

// CommandLogsResponse is output of a background command, and where the next call goes on.
type CommandLogsResponse struct {
	Output string
	Cursor int64
}

// GetCommandLogs returns output of a background command from cursor on; nil is the beginning.
func (c *ExecdClient) GetCommandLogs(ctx context.Context, id string, cursor *int64,
) (*CommandLogsResponse, error) {
	query := url.Values{}
	if cursor != nil {
		query.Set("cursor", strconv.FormatInt(*cursor, 10))
	}
	return c.logs(ctx, id, query)
}

func (c *ExecdClient) logs(ctx context.Context, id string, query url.Values,
) (*CommandLogsResponse, error) {
	return c.readLogs(ctx, "/command/"+url.PathEscape(id)+"/logs", query, "EXECD-COMMANDS-TAIL-CURSOR")
}

// readLogs reads output of a run; a header of the answer says where the next call goes on.
func (c *ExecdClient) readLogs(ctx context.Context, path string, query url.Values, cursorHeader string,
) (*CommandLogsResponse, error) {
	res, err := c.open(ctx, &request{method: http.MethodGet, path: path, query: query})
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, answerBytesMax))
	if err != nil {
		return nil, fmt.Errorf("opensandbox: GET %s: %w", path, err)
	}
	next, _ := strconv.ParseInt(res.Header.Get(cursorHeader), 10, 64)
	return &CommandLogsResponse{Output: string(text), Cursor: next}, nil
}

// WriteCommandInput sends to the standard input of a command that was started with StdinOpen; with
// eof the input ends behind it.
func (c *ExecdClient) WriteCommandInput(ctx context.Context, id string, input io.Reader, eof bool,
) error {
	return c.do(ctx, &request{method: http.MethodPost, path: "/command/" + url.PathEscape(id) + "/stdin",
		query: url.Values{"eof": {strconv.FormatBool(eof)}}, body: input,
		contentType: "application/octet-stream", noTimeout: true}, nil)
}

// CreateSession starts a shell that keeps its directory and variables between runs; cwd may be empty.
func (c *ExecdClient) CreateSession(ctx context.Context, cwd string) (string, error) {
	var out struct {
		SessionID string `json:"session_id"`
	}
	body := map[string]string{}
	if cwd != "" {
		body["cwd"] = cwd
	}
	err := c.post(ctx, "/session", body, &out)
	return out.SessionID, err
}

// RunInSession runs a command in a session.
func (c *ExecdClient) RunInSession(ctx context.Context, id string, req RunInSessionRequest,
	handlers *ExecutionHandlers) (*Execution, error) {
	if err := needText("session id", id); err != nil {
		return nil, err
	}
	if err := needText("command", req.Command); err != nil {
		return nil, err
	}
	run, err := c.execute(ctx, &request{method: http.MethodPost,
		path: "/session/" + url.PathEscape(id) + "/run", body: req}, handlers, nil)
	if err == nil {
		setExitCode(run)
	}
	return run, err
}

// DeleteSession ends a session.
func (c *ExecdClient) DeleteSession(ctx context.Context, id string) error {
	if err := needText("session id", id); err != nil {
		return err
	}
	return c.delete(ctx, "/session/"+url.PathEscape(id), nil)
}

// CreateContext makes a code context: a kernel with variables of its own.
func (c *ExecdClient) CreateContext(ctx context.Context, req CreateContextRequest,
) (*CodeContext, error) {
	if err := needText("language", req.Language); err != nil {
		return nil, err
	}
	var out CodeContext
	return result(&out, c.post(ctx, "/code/context", req, &out))
}

// GetContext returns a code context.
func (c *ExecdClient) GetContext(ctx context.Context, id string) (*CodeContext, error) {
	var out CodeContext
	return result(&out, c.get(ctx, "/code/contexts/"+url.PathEscape(id), nil, &out))
}

// ListContexts returns the contexts of a language, or of all for an empty one.
func (c *ExecdClient) ListContexts(ctx context.Context, language string) ([]CodeContext, error) {
	query := url.Values{}
	if language != "" {
		query.Set("language", language)
	}
	var out []CodeContext
	err := c.get(ctx, "/code/contexts", query, &out)
	return out, err
}

// DeleteContext ends a code context.
func (c *ExecdClient) DeleteContext(ctx context.Context, id string) error {
	return c.delete(ctx, "/code/contexts/"+url.PathEscape(id), nil)
}

// DeleteContextsByLanguage ends all contexts of a language.
func (c *ExecdClient) DeleteContextsByLanguage(ctx context.Context, language string) error {
	return c.delete(ctx, "/code/contexts", url.Values{"language": {language}})
}

// ExecuteCode runs a cell.
func (c *ExecdClient) ExecuteCode(ctx context.Context, req RunCodeRequest,
	handlers *ExecutionHandlers) (*Execution, error) {
	if err := needText("code", req.Code); err != nil {
		return nil, err
	}
	return c.execute(ctx, &request{method: http.MethodPost, path: "/code", body: req}, handlers, nil)
}

// InterruptCode interrupts the cell that a context runs.
func (c *ExecdClient) InterruptCode(ctx context.Context, id string) error {
	return c.delete(ctx, "/code", url.Values{"id": {id}})
}

// GetMetrics returns what the sandbox uses now.
func (c *ExecdClient) GetMetrics(ctx context.Context) (*Metrics, error) {
	var out Metrics
	return result(&out, c.get(ctx, "/metrics", nil, &out))
}

// WatchMetrics calls take about once a second until ctx ends or take returns an error.
func (c *ExecdClient) WatchMetrics(ctx context.Context, take func(Metrics) error) error {
	return c.endless(ctx, &request{method: http.MethodGet, path: "/metrics/watch"},
		func(event StreamEvent) error {
			var m struct {
				Metrics
				Error string `json:"error"`
			}
			if err := json.Unmarshal([]byte(event.Data), &m); err != nil {
				return fmt.Errorf("opensandbox: metrics are not JSON: %w", err)
			}
			if m.Error != "" {
				return fmt.Errorf("opensandbox: metrics: %s", m.Error)
			}
			return take(m.Metrics)
		})
}
