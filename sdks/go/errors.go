package opensandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// ErrorResponse is the body of an error: a code for programs, a message for people.
type ErrorResponse struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// CodeUnexpectedResponse is the code of an error status whose body names none.
const CodeUnexpectedResponse = "UNEXPECTED_RESPONSE"

// codeInProgress says that an earlier try of a create with an idempotency key is under way.
const codeInProgress = "IDEMPOTENCY::IN_PROGRESS"

// ErrStreamEnded says that a stream ended before its last event. What ran may still be running.
var ErrStreamEnded = errors.New("opensandbox: the stream ended without its last event")

// APIError is an answer with an error status.
type APIError struct {
	StatusCode int
	RequestID  string // X-Request-ID of the answer; the server's log has it too
	Response   ErrorResponse
	RetryAfter time.Duration // 0: the server named none
}

func (e *APIError) Error() string {
	text := fmt.Sprintf("opensandbox: %d %s: %s", e.StatusCode, e.Response.Code, e.Response.Message)
	if e.RequestID != "" {
		text += " (request " + e.RequestID + ")"
	}
	return text
}

// IsTransient reports whether the same request may succeed later.
func (e *APIError) IsTransient() bool {
	switch e.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout:
		return true
	}
	return false
}

// IsNotFound reports whether err says that something does not exist (404).
func IsNotFound(err error) bool {
	var api *APIError
	return errors.As(err, &api) && api.StatusCode == http.StatusNotFound
}

// SandboxReadyTimeoutError says that a sandbox did not answer in time.
type SandboxReadyTimeoutError struct {
	SandboxID string
	Elapsed   time.Duration
	LastErr   error
}

func (e *SandboxReadyTimeoutError) Error() string {
	return fmt.Sprintf("opensandbox: sandbox %s did not answer within %v: %v; "+
		"if its address cannot be reached from here, set UseServerProxy", e.SandboxID,
		e.Elapsed.Round(time.Millisecond), e.LastErr)
}

func (e *SandboxReadyTimeoutError) Unwrap() error { return e.LastErr }

// SandboxRunningTimeoutError says that a sandbox did not become Running in time. No call returns it any
// more: programs that look for it may stay as they are.
type SandboxRunningTimeoutError struct {
	SandboxID string
	Elapsed   time.Duration
	LastErr   error
}

func (e *SandboxRunningTimeoutError) Error() string {
	return fmt.Sprintf("opensandbox: sandbox %s was not Running after %v: %v", e.SandboxID,
		e.Elapsed.Round(time.Millisecond), e.LastErr)
}

func (e *SandboxRunningTimeoutError) Unwrap() error { return e.LastErr }

// SandboxUnhealthyError says that a sandbox ended or failed; Reason is the server's.
type SandboxUnhealthyError struct {
	SandboxID string
	Reason    string
}

func (e *SandboxUnhealthyError) Error() string {
	return fmt.Sprintf("opensandbox: sandbox %s: %s", e.SandboxID, e.Reason)
}

// InvalidArgumentError says which argument is wrong. No request was sent.
type InvalidArgumentError struct {
	Field   string
	Message string
}

func (e *InvalidArgumentError) Error() string {
	return fmt.Sprintf("opensandbox: %s %s", e.Field, e.Message)
}

func needText(field, value string) error {
	if strings.TrimSpace(value) == "" {
		return &InvalidArgumentError{Field: field, Message: "must not be blank"}
	}
	return nil
}

// checkKey accepts what can be an idempotency key: it goes into a header.
func checkKey(key string) error {
	for i := 0; i < len(key); i++ {
		if key[i] < ' ' || key[i] > '~' {
			return &InvalidArgumentError{Field: "IdempotencyKey", Message: "must be printable ASCII"}
		}
	}
	if len(key) > idempotencyKeyMax || strings.TrimSpace(key) != key {
		return &InvalidArgumentError{Field: "IdempotencyKey",
			Message: fmt.Sprintf("must have at most %d characters, and no space around", idempotencyKeyMax)}
	}
	return nil
}

// newAPIError reads an error body, which a proxy may have wrapped as {"detail": ...} or replaced.
func newAPIError(res *http.Response, body []byte) *APIError {
	var wrapped struct {
		ErrorResponse
		Detail json.RawMessage `json:"detail"`
	}
	e := &APIError{StatusCode: res.StatusCode, RequestID: res.Header.Get("X-Request-ID"),
		RetryAfter: retryAfter(res.Header.Get("Retry-After"))}
	if json.Unmarshal(body, &wrapped) == nil {
		e.Response = wrapped.ErrorResponse
		if e.Response.Code == "" && e.Response.Message == "" && len(wrapped.Detail) > 0 {
			if json.Unmarshal(wrapped.Detail, &e.Response) != nil {
				e.Response.Message = strings.Trim(string(wrapped.Detail), `"`)
			}
		}
	}
	e.Response.Code = orDefault(e.Response.Code, CodeUnexpectedResponse)
	if e.Response.Message == "" {
		e.Response.Message = orDefault(strings.TrimSpace(cut(string(body), 500)), res.Status)
	}
	return e
}

func retryAfter(value string) time.Duration {
	if seconds, err := strconv.Atoi(value); err == nil && seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil && time.Until(at) > 0 {
		return time.Until(at)
	}
	return 0
}

func cut(text string, max int) string {
	if len(text) > max {
		return text[:max] + "..."
	}
	return text
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
