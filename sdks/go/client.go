package opensandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	answerBytesMax = 64 << 20 // of a JSON answer
	errorBytesMax  = 1 << 20
)

// RetryConfig says which failed requests are sent again. Requests that are safe to repeat (GET, PUT,
// DELETE, a create with an idempotency key) are repeated after a broken connection and after RetryableStatusCodes; others only when no
// connection could be made, so that nothing was sent. Uploads are never repeated.
type RetryConfig struct {
	MaxRetries           int
	InitialBackoff       time.Duration
	MaxBackoff           time.Duration
	Multiplier           float64
	Jitter               float64 // 0.25: a pause is between 75 % and 125 % of its length
	RetryableStatusCodes []int
}

// DefaultRetryConfig returns three retries that begin half a second apart.
func DefaultRetryConfig() *RetryConfig {
	return &RetryConfig{MaxRetries: 3, InitialBackoff: 500 * time.Millisecond,
		MaxBackoff: 30 * time.Second, Multiplier: 2, Jitter: 0.25,
		RetryableStatusCodes: []int{429, 502, 503, 504}}
}

// pause returns how long to wait before retry number n, which counts from 0.
func (r *RetryConfig) pause(n int, asked time.Duration) time.Duration {
	length := float64(r.InitialBackoff) * math.Pow(math.Max(r.Multiplier, 1), float64(n))
	length *= 1 + r.Jitter*(2*rand.Float64()-1)
	pause := time.Duration(math.Min(length, float64(r.MaxBackoff)))
	if asked > pause {
		pause = asked
	}
	return pause
}

func (r *RetryConfig) wants(repeatable bool, err error) bool {
	var api *APIError
	if !errors.As(err, &api) {
		var network *net.OpError
		neverSent := errors.As(err, &network) && network.Op == "dial"
		late := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
		return neverSent || (repeatable && !late)
	}
	if !repeatable {
		return false
	}
	if api.Response.Code == codeInProgress {
		return true
	}
	for _, status := range r.RetryableStatusCodes {
		if status == api.StatusCode {
			return true
		}
	}
	return false
}

// Client sends requests to one base URL. LifecycleClient, ExecdClient and EgressClient stand on it.
type Client struct {
	baseURL string
	headers http.Header
	http    *http.Client
	timeout time.Duration
	idle    time.Duration // silence that breaks a stream which has had pings
	retry   *RetryConfig
	auth    string // header of the key
	key     string
}

// Option changes a Client.
type Option func(*Client)

// WithHTTPClient sends requests by the given client.
func WithHTTPClient(client *http.Client) Option { return func(c *Client) { c.http = client } }

// WithTimeout limits unary calls, and the time until a stream begins. 0 means no limit.
func WithTimeout(limit time.Duration) Option { return func(c *Client) { c.timeout = limit } }

// WithStreamIdleTimeout ends streams whose pings stay away for so long; they count as broken.
func WithStreamIdleTimeout(limit time.Duration) Option { return func(c *Client) { c.idle = limit } }

// WithHeaders adds headers to every request.
func WithHeaders(headers map[string]string) Option {
	return func(c *Client) {
		for name, value := range headers {
			c.headers.Set(name, value)
		}
	}
}

// WithAuthHeader names the header that carries the key.
func WithAuthHeader(name string) Option { return func(c *Client) { c.auth = name } }

// WithRetry sends failed requests again.
func WithRetry(retry *RetryConfig) Option { return func(c *Client) { c.retry = retry } }

// NewClient returns a client of the API at baseURL; a key that is not empty goes into authHeader.
func NewClient(baseURL, apiKey, authHeader string, opts ...Option) *Client {
	c := &Client{baseURL: strings.TrimRight(baseURL, "/"), headers: http.Header{}, auth: authHeader,
		key: apiKey, timeout: defaultRequestTimeout, idle: defaultStreamIdleTimeout}
	for _, opt := range opts {
		opt(c)
	}
	if c.http == nil {
		c.http = &http.Client{Transport: newTransport(nil)}
	}
	return c
}

// request is one call. A body that is an io.Reader is sent once, as it is read.
type request struct {
	method, path string
	query        url.Values
	headers      map[string]string
	body         any
	contentType  string
	noTimeout    bool // the body is streamed: only the context ends it
	idempotent   bool // to be repeated like a GET, whatever the method
}

func (r *request) repeatable() bool {
	return r.idempotent || r.method == http.MethodGet || r.method == http.MethodPut ||
		r.method == http.MethodDelete
}

func (c *Client) build(ctx context.Context, r *request) (*http.Request, error) {
	var body io.Reader
	contentType := r.contentType
	switch value := r.body.(type) {
	case nil:
	case io.Reader:
		body = value
	default:
		text, err := json.Marshal(value)
		if err != nil {
			return nil, fmt.Errorf("opensandbox: %w", err)
		}
		body, contentType = bytes.NewReader(text), "application/json"
	}
	address := c.baseURL + r.path
	if len(r.query) > 0 {
		address += "?" + r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, address, body)
	if err != nil {
		return nil, fmt.Errorf("opensandbox: %w", err)
	}
	for name, values := range c.headers {
		req.Header[name] = values
	}
	req.Header.Set("User-Agent", "OpenSandbox-Go-SDK/"+Version)
	if c.key != "" {
		req.Header.Set(c.auth, c.key)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	for name, value := range r.headers {
		req.Header.Set(name, value)
	}
	return req, nil
}

// repeat makes a call until it succeeds, or until its error is one that repeating does not mend.
func (c *Client) repeat(ctx context.Context, r *request, call func() error) error {
	_, streamed := r.body.(io.Reader)
	for n := 0; ; n++ {
		err := call()
		if n > 0 && r.method == http.MethodDelete && IsNotFound(err) {
			return nil // the answer of an earlier try was lost
		}
		if err == nil || streamed || n >= c.retries() || ctx.Err() != nil ||
			!c.retry.wants(r.repeatable(), err) {
			return err
		}
		var api *APIError
		var asked time.Duration
		if errors.As(err, &api) {
			asked = api.RetryAfter
		}
		if sleep(ctx, c.retry.pause(n, asked)) != nil {
			return err
		}
	}
}

// open sends a request and returns the answer once its head is there and is no error. The time limit
// holds until then; the body may take as long as ctx allows. Close the body.
func (c *Client) open(ctx context.Context, r *request) (*http.Response, error) {
	var res *http.Response
	err := c.repeat(ctx, r, func() (err error) {
		res, err = c.openOnce(ctx, r)
		return err
	})
	if err != nil || res == nil {
		return nil, err
	}
	return res, nil
}

func (c *Client) openOnce(ctx context.Context, r *request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(ctx)
	var late *time.Timer
	if c.timeout > 0 && !r.noTimeout {
		late = time.AfterFunc(c.timeout, cancel)
	}
	req, err := c.build(ctx, r)
	if err != nil {
		cancel()
		return nil, err
	}
	res, err := c.http.Do(req)
	if late != nil && !late.Stop() && err != nil {
		err = fmt.Errorf("no answer within %v: %w", c.timeout, context.DeadlineExceeded)
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("opensandbox: %s %s: %w", r.method, r.path, err)
	}
	res.Body = &cancelBody{res.Body, cancel}
	if res.StatusCode >= 200 && res.StatusCode < 300 {
		return res, nil
	}
	defer res.Body.Close()
	stop := time.AfterFunc(orDefault(c.timeout, defaultRequestTimeout), cancel)
	defer stop.Stop()
	text, _ := io.ReadAll(io.LimitReader(res.Body, errorBytesMax))
	return nil, newAPIError(res, text)
}

// cancelBody frees the request's context with the body.
type cancelBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *cancelBody) Close() error {
	err := b.ReadCloser.Close()
	b.cancel()
	return err
}

// do sends a request and decodes its answer into out, which may be nil.
func (c *Client) do(ctx context.Context, r *request, out any) error {
	var text []byte
	err := c.repeat(ctx, r, func() (err error) {
		text, err = c.doOnce(ctx, r)
		return err
	})
	if err != nil || out == nil {
		return err
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("opensandbox: %s %s: the answer is not what was expected: %w", r.method,
			r.path, err)
	}
	return nil
}

func (c *Client) doOnce(ctx context.Context, r *request) ([]byte, error) {
	if c.timeout > 0 && !r.noTimeout {
		limited, cancel := context.WithTimeout(ctx, c.timeout)
		defer cancel()
		ctx = limited
	}
	res, err := c.openOnce(ctx, r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, answerBytesMax+1))
	if err != nil {
		return nil, fmt.Errorf("opensandbox: %s %s: %w", r.method, r.path, err)
	}
	if len(text) > answerBytesMax {
		return nil, fmt.Errorf("opensandbox: %s %s: the answer is larger than %d bytes", r.method,
			r.path, answerBytesMax)
	}
	return text, nil
}

func (c *Client) retries() int {
	if c.retry == nil {
		return 0
	}
	return c.retry.MaxRetries
}

func (c *Client) get(ctx context.Context, path string, query url.Values, out any) error {
	return c.do(ctx, &request{method: http.MethodGet, path: path, query: query}, out)
}

func (c *Client) post(ctx context.Context, path string, body, out any) error {
	return c.do(ctx, &request{method: http.MethodPost, path: path, body: body}, out)
}

func (c *Client) delete(ctx context.Context, path string, query url.Values) error {
	return c.do(ctx, &request{method: http.MethodDelete, path: path, query: query}, nil)
}
