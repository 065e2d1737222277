package opensandbox

import (
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// Version of this package; part of the User-Agent header.
const Version = "1.1.0"

// Ports of the programs that serve a sandbox.
const (
	DefaultExecdPort  = 44772
	DefaultEgressPort = 18080
)

// Environment variables that fill empty fields of a ConnectionConfig.
const (
	EnvDomain   = "OPEN_SANDBOX_DOMAIN"
	EnvProtocol = "OPEN_SANDBOX_PROTOCOL"
	EnvAPIKey   = "OPEN_SANDBOX_API_KEY"
)

const (
	defaultDomain         = "localhost:8080"
	defaultAuthHeader     = "OPEN-SANDBOX-API-KEY"
	defaultRequestTimeout = 30 * time.Second

	defaultStreamIdleTimeout = 30 * time.Second
)

// ConnectionConfig says where the server is and how to talk to it. The zero value reads the
// environment and falls back to http://localhost:8080 without a key.
type ConnectionConfig struct {
	Domain         string // host[:port], may have a scheme and a path prefix
	Protocol       string // "http" or "https"; a scheme in Domain wins
	APIKey         string
	UseServerProxy bool // ask the server for endpoints that lead through it
	RequestTimeout time.Duration
	Headers        map[string]string // sent with every request
	HTTPClient     *http.Client      // replaces the client made from Transport
	AuthHeader     string            // header of the API key
	Retry          *RetryConfig      // nil: DefaultRetryConfig; MaxRetries 0 for none
	// StreamIdleTimeout is how long the pings of a stream may stay away before it counts as broken.
	StreamIdleTimeout time.Duration
	Transport         *TransportConfig
	// EndpointHostRewrite replaces substrings of endpoints, for example host.docker.internal by
	// localhost.
	EndpointHostRewrite map[string]string
}

// TransportConfig tunes the HTTP transport. Zero fields take the defaults of DefaultTransportConfig.
type TransportConfig struct {
	MaxIdleConns        int
	MaxIdleConnsPerHost int
	IdleConnTimeout     time.Duration
	TLSHandshakeTimeout time.Duration
	DialTimeout         time.Duration
	KeepAlive           time.Duration
	TLSConfig           *tls.Config // nil: the system's certificate authorities, TLS 1.2 or newer
}

// DefaultTransportConfig returns the settings of a connection without a TransportConfig.
func DefaultTransportConfig() TransportConfig {
	return TransportConfig{
		MaxIdleConns:        100,
		MaxIdleConnsPerHost: 10,
		IdleConnTimeout:     90 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second,
		DialTimeout:         30 * time.Second,
		KeepAlive:           30 * time.Second,
	}
}

func orDefault[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}

func fromEnvironment(value, variable, fallback string) string {
	return orDefault(orDefault(value, strings.TrimSpace(os.Getenv(variable))), fallback)
}

// GetDomain returns the domain in effect, as it was given.
func (c ConnectionConfig) GetDomain() string {
	return fromEnvironment(c.Domain, EnvDomain, defaultDomain)
}

// GetProtocol returns "http" or "https": the scheme of the domain if it has one.
func (c ConnectionConfig) GetProtocol() string {
	if scheme, _, found := strings.Cut(c.GetDomain(), "://"); found {
		return strings.ToLower(scheme)
	}
	return strings.ToLower(fromEnvironment(c.Protocol, EnvProtocol, "http"))
}

// GetAPIKey returns the key in effect, empty for none.
func (c ConnectionConfig) GetAPIKey() string {
	return fromEnvironment(c.APIKey, EnvAPIKey, "")
}

// GetBaseURL returns the address of the lifecycle API, with /v1.
func (c ConnectionConfig) GetBaseURL() string {
	domain := c.GetDomain()
	if _, rest, found := strings.Cut(domain, "://"); found {
		domain = rest
	}
	domain = strings.TrimSuffix(strings.TrimRight(domain, "/"), "/v1")
	return c.GetProtocol() + "://" + strings.TrimRight(domain, "/") + "/v1"
}

// GetAuthHeader returns the name of the header that carries the API key.
func (c ConnectionConfig) GetAuthHeader() string {
	return orDefault(c.AuthHeader, defaultAuthHeader)
}

// GetRequestTimeout returns the time limit of a unary call.
func (c ConnectionConfig) GetRequestTimeout() time.Duration {
	return orDefault(c.RequestTimeout, defaultRequestTimeout)
}

// RewriteEndpointURL applies EndpointHostRewrite to an endpoint.
func (c ConnectionConfig) RewriteEndpointURL(endpoint string) string {
	for from, to := range c.EndpointHostRewrite {
		endpoint = strings.ReplaceAll(endpoint, from, to)
	}
	return endpoint
}

// check reports settings that can never work, before the first request.
func (c ConnectionConfig) check() error {
	if p := c.GetProtocol(); p != "http" && p != "https" {
		return &InvalidArgumentError{Field: "Protocol", Message: "must be http or https, not " + p}
	}
	if c.RequestTimeout < 0 || c.StreamIdleTimeout < 0 {
		return &InvalidArgumentError{Field: "RequestTimeout",
			Message: "and StreamIdleTimeout must not be negative"}
	}
	return nil
}

// clientOptions are the settings that hold for the server and for its sandboxes.
func (c ConnectionConfig) clientOptions(client *http.Client) []Option {
	retry := c.Retry
	if retry == nil {
		retry = DefaultRetryConfig()
	}
	return []Option{WithHTTPClient(client), WithTimeout(c.GetRequestTimeout()),
		WithStreamIdleTimeout(orDefault(c.StreamIdleTimeout, defaultStreamIdleTimeout)),
		WithHeaders(c.Headers), WithRetry(retry)}
}

// endpointURL returns the address of a port of a sandbox.
func (c ConnectionConfig) endpointURL(endpoint string) string {
	endpoint = strings.TrimRight(c.RewriteEndpointURL(endpoint), "/")
	if strings.Contains(endpoint, "://") {
		return endpoint
	}
	return c.GetProtocol() + "://" + endpoint
}

func (c ConnectionConfig) httpClient() *http.Client {
	if c.HTTPClient != nil {
		return c.HTTPClient
	}
	return &http.Client{Transport: newTransport(c.Transport)}
}

func newTransport(given *TransportConfig) *http.Transport {
	t := DefaultTransportConfig()
	if given != nil {
		t.MaxIdleConns = orDefault(given.MaxIdleConns, t.MaxIdleConns)
		t.MaxIdleConnsPerHost = orDefault(given.MaxIdleConnsPerHost, t.MaxIdleConnsPerHost)
		t.IdleConnTimeout = orDefault(given.IdleConnTimeout, t.IdleConnTimeout)
		t.TLSHandshakeTimeout = orDefault(given.TLSHandshakeTimeout, t.TLSHandshakeTimeout)
		t.DialTimeout = orDefault(given.DialTimeout, t.DialTimeout)
		t.KeepAlive = orDefault(given.KeepAlive, t.KeepAlive)
		t.TLSConfig = given.TLSConfig
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if t.TLSConfig != nil {
		config = t.TLSConfig.Clone()
	}
	dialer := &net.Dialer{Timeout: t.DialTimeout, KeepAlive: t.KeepAlive}
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dialer.DialContext,
		MaxIdleConns:        t.MaxIdleConns,
		MaxIdleConnsPerHost: t.MaxIdleConnsPerHost,
		IdleConnTimeout:     t.IdleConnTimeout,
		TLSHandshakeTimeout: t.TLSHandshakeTimeout,
		TLSClientConfig:     config,
	}
}
