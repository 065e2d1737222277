package opensandbox

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	defaultTimeoutSeconds = 600
	defaultReadyTimeout   = 30 * time.Second
	defaultPolling        = 200 * time.Millisecond
	cleanupTimeout        = 10 * time.Second
)

// DefaultEntrypoint keeps a sandbox open until it expires or is deleted.
func DefaultEntrypoint() []string { return []string{"tail", "-f", "/dev/null"} }

// DefaultResourceLimits are the limits of a sandbox that was created without any.
func DefaultResourceLimits() map[string]string {
	return map[string]string{"cpu": "1", "memory": "2Gi"}
}

// HealthCheck tells whether a sandbox is ready for its user. An error counts as "not yet".
type HealthCheck func(ctx context.Context, sandbox *Sandbox) (bool, error)

// SandboxCreateOptions says what to create: exactly one of Image and SnapshotID.
type SandboxCreateOptions struct {
	Image           string
	ImageAuth       *ImageAuth
	SnapshotID      string
	Entrypoint      []string          // DefaultEntrypoint unless given; that of a snapshot
	ResourceLimits  map[string]string // DefaultResourceLimits unless given
	TimeoutSeconds  *int              // 600 unless given
	ManualCleanup   bool              // never expires
	Env             map[string]string
	Metadata        map[string]string
	SecureAccess    bool
	NetworkPolicy   *NetworkPolicy
	CredentialProxy *CredentialProxyConfig
	SecretEnv       map[string]Secret // by variable; the code inside never holds the values
	// IdempotencyKey makes the create safe to repeat: a second one with the key and the same options
	// returns the sandbox of the first, for a day. The client then repeats it like a GET.
	IdempotencyKey      string
	Volumes             []Volume
	Extensions          map[string]string
	Platform            *PlatformSpec
	Persistent          bool   // files stay when it is stopped; not every server offers it
	OnExpiry            string // "delete" or, with Persistent, "stop"
	SkipHealthCheck     bool
	ReadyTimeout        time.Duration // 30 s unless given
	HealthCheckInterval time.Duration // 200 ms unless given; the first pauses are shorter
	HealthCheck         HealthCheck   // replaces the ping of execd
}

// ReadyOptions says how long and by what to wait for a sandbox.
type ReadyOptions struct {
	Timeout         time.Duration
	PollingInterval time.Duration
	HealthCheck     HealthCheck
}

func (o *SandboxCreateOptions) check() error {
	if (strings.TrimSpace(o.Image) == "") == (strings.TrimSpace(o.SnapshotID) == "") {
		return &InvalidArgumentError{Field: "Image", Message: "or SnapshotID must be set, not both"}
	}
	if o.TimeoutSeconds != nil && (*o.TimeoutSeconds <= 0 || o.ManualCleanup) {
		return &InvalidArgumentError{Field: "TimeoutSeconds",
			Message: "must be positive, and absent with ManualCleanup"}
	}
	if err := checkKey(o.IdempotencyKey); err != nil {
		return err
	}
	for _, v := range o.Volumes {
		if err := checkVolume(&v); err != nil {
			return err
		}
	}
	return nil
}

func checkVolume(v *Volume) error {
	backends := 0
	for _, given := range []bool{v.Host != nil, v.PVC != nil, v.OSSFS != nil} {
		if given {
			backends++
		}
	}
	if backends != 1 {
		return &InvalidArgumentError{Field: "Volumes",
			Message: "entry " + v.Name + " needs one of Host, PVC and OSSFS"}
	}
	if !strings.HasPrefix(v.MountPath, "/") {
		return &InvalidArgumentError{Field: "Volumes",
			Message: "entry " + v.Name + " needs an absolute MountPath"}
	}
	return nil
}

func (o *SandboxCreateOptions) request() CreateSandboxRequest {
	req := CreateSandboxRequest{SnapshotID: o.SnapshotID, Persistent: o.Persistent,
		OnExpiry: o.OnExpiry, Platform: o.Platform, Metadata: o.Metadata, Entrypoint: o.Entrypoint,
		ResourceLimits: o.ResourceLimits, NetworkPolicy: o.NetworkPolicy,
		CredentialProxy: o.CredentialProxy, SecretEnv: o.SecretEnv, SecureAccess: o.SecureAccess, Volumes: o.Volumes,
		Extensions: o.Extensions}
	if o.Image != "" {
		req.Image = &ImageSpec{URI: o.Image, Auth: o.ImageAuth}
	}
	if len(req.Entrypoint) == 0 && o.SnapshotID == "" {
		req.Entrypoint = DefaultEntrypoint()
	}
	if len(req.ResourceLimits) == 0 {
		req.ResourceLimits = DefaultResourceLimits()
	}
	if !o.ManualCleanup {
		seconds := int64(defaultTimeoutSeconds)
		if o.TimeoutSeconds != nil {
			seconds = int64(*o.TimeoutSeconds)
		}
		req.Timeout = &seconds
	}
	for name, value := range o.Env {
		if req.Env == nil {
			req.Env = map[string]*string{}
		}
		text := value
		req.Env[name] = &text
	}
	return req
}

// Sandbox is a sandbox that this program created or connected to.
type Sandbox struct {
	id        string
	config    ConnectionConfig
	http      *http.Client
	lifecycle *LifecycleClient
	execd     *ExecdClient

	lock   sync.Mutex // guards egress
	egress *EgressClient
}

func newSandbox(config ConnectionConfig, id string) *Sandbox {
	client := config.httpClient()
	return &Sandbox{id: id, config: config, http: client,
		lifecycle: newLifecycleClient(config, client)}
}

// CreateSandbox creates a sandbox and waits until it answers. A sandbox that fails in the meantime is
// an error with the server's reason, and is deleted.
func CreateSandbox(ctx context.Context, config ConnectionConfig, opts SandboxCreateOptions,
) (*Sandbox, error) {
	if err := firstError(config.check(), opts.check()); err != nil {
		return nil, err
	}
	sandbox := newSandbox(config, "")
	info, err := sandbox.request(ctx, &opts)
	if err != nil {
		sandbox.Close()
		return nil, err
	}
	sandbox.id = info.ID
	ready := ReadyOptions{opts.ReadyTimeout, opts.HealthCheckInterval, opts.HealthCheck}
	if err := sandbox.open(ctx, ready, opts.SkipHealthCheck); err != nil {
		cleanup, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
		defer cancel()
		if left := sandbox.Kill(cleanup); left != nil && !IsNotFound(left) {
			err = fmt.Errorf("%w (and it could not be deleted: %v)", err, left)
		}
		sandbox.Close()
		return nil, err
	}
	return sandbox, nil
}

// ConnectSandbox returns a sandbox by its id. With a ReadyOptions it waits until the sandbox answers.
func ConnectSandbox(ctx context.Context, config ConnectionConfig, id string, ready ...ReadyOptions,
) (*Sandbox, error) {
	if err := firstError(config.check(), needText("sandbox id", id)); err != nil {
		return nil, err
	}
	if len(ready) > 1 {
		return nil, &InvalidArgumentError{Field: "ReadyOptions", Message: "may be given once"}
	}
	return newSandbox(config, id).connect(ctx, ready)
}

// connect finds execd and, with a ReadyOptions, waits until it answers.
func (s *Sandbox) connect(ctx context.Context, ready []ReadyOptions) (*Sandbox, error) {
	err := s.connectExecd(ctx)
	if err == nil && len(ready) == 1 {
		err = s.WaitUntilReady(ctx, ready[0])
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// ResumeSandbox lets a paused sandbox go on and returns it.
func ResumeSandbox(ctx context.Context, config ConnectionConfig, id string, ready ...ReadyOptions,
) (*Sandbox, error) {
	if err := firstError(config.check(), needText("sandbox id", id)); err != nil {
		return nil, err
	}
	if len(ready) == 0 {
		ready = []ReadyOptions{{}}
	}
	if len(ready) > 1 {
		return nil, &InvalidArgumentError{Field: "ReadyOptions", Message: "may be given once"}
	}
	sandbox := newSandbox(config, id)
	if err := sandbox.lifecycle.ResumeSandbox(ctx, id); err != nil {
		sandbox.Close()
		return nil, err
	}
	return sandbox.connect(ctx, ready)
}

// request asks the server for what opts say.
func (s *Sandbox) request(ctx context.Context, opts *SandboxCreateOptions) (*SandboxInfo, error) {
	if opts.IdempotencyKey != "" {
		return s.lifecycle.CreateSandboxWithKey(ctx, opts.IdempotencyKey, opts.request())
	}
	return s.lifecycle.CreateSandbox(ctx, opts.request())
}

// open finds execd and waits until it answers.
func (s *Sandbox) open(ctx context.Context, ready ReadyOptions, skip bool) error {
	if err := s.connectExecd(ctx); err != nil || skip {
		return err
	}
	return s.WaitUntilReady(ctx, ready)
}

func (s *Sandbox) unhealthy(info *SandboxInfo) error {
	reason := strings.TrimSpace(info.Status.Reason + " " + info.Status.Message)
	return &SandboxUnhealthyError{SandboxID: s.id, Reason: "is " + info.Status.State + ": " + reason}
}

// portClient finds a port of the sandbox. The API key is not sent there.
func (s *Sandbox) portClient(ctx context.Context, port int) (string, []Option, error) {
	endpoint, err := s.GetEndpoint(ctx, port)
	if err != nil {
		return "", nil, err
	}
	return s.config.endpointURL(endpoint.Endpoint),
		append(s.config.clientOptions(s.http), WithHeaders(endpoint.Headers)), nil
}

func (s *Sandbox) connectExecd(ctx context.Context) error {
	address, opts, err := s.portClient(ctx, DefaultExecdPort)
	if err == nil {
		s.execd = NewExecdClient(address, "", opts...)
	}
	return err
}

// WaitUntilReady waits until the sandbox answers, or fails at once when it has ended.
func (s *Sandbox) WaitUntilReady(ctx context.Context, ready ReadyOptions) error {
	limit := orDefault(ready.Timeout, defaultReadyTimeout)
	began := time.Now()
	var last error
	pauseMax := orDefault(ready.PollingInterval, defaultPolling)
	for pause := 10 * time.Millisecond; ; pause *= 2 {
		ok, err := s.probe(ctx, ready.HealthCheck, limit-time.Since(began))
		if ok {
			return nil
		}
		if last = err; last == nil {
			last = errors.New("the health check returned false")
		}
		if info, err := s.GetInfo(ctx); err == nil &&
			(info.Status.State == StateFailed || info.Status.State == StateTerminated) {
			return s.unhealthy(info)
		}
		if time.Since(began) >= limit {
			return &SandboxReadyTimeoutError{SandboxID: s.id, Elapsed: time.Since(began), LastErr: last}
		}
		if pause > pauseMax {
			pause = pauseMax
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

func (s *Sandbox) probe(ctx context.Context, check HealthCheck, left time.Duration) (bool, error) {
	if left < time.Second {
		left = time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	if check != nil {
		return check(ctx, s)
	}
	err := s.Ping(ctx)
	return err == nil, err
}

// ID returns the id of the sandbox.
func (s *Sandbox) ID() string { return s.id }

// Execd returns the client of the daemon inside, for calls that Sandbox has no method for.
func (s *Sandbox) Execd() *ExecdClient { return s.execd }

// Lifecycle returns the client of the lifecycle API.
func (s *Sandbox) Lifecycle() *LifecycleClient { return s.lifecycle }

// Resume lets this sandbox go on after Pause and waits until it answers.
func (s *Sandbox) Resume(ctx context.Context) (*Sandbox, error) {
	return ResumeSandbox(ctx, s.config, s.id)
}

// Kill ends the sandbox for good.
func (s *Sandbox) Kill(ctx context.Context) error { return s.lifecycle.DeleteSandbox(ctx, s.id) }

// Close frees idle connections. The sandbox goes on.
func (s *Sandbox) Close() error {
	if s.config.HTTPClient == nil {
		s.http.CloseIdleConnections()
	}
	return nil
}

// Pause freezes the sandbox.
func (s *Sandbox) Pause(ctx context.Context) error { return s.lifecycle.PauseSandbox(ctx, s.id) }

// GetInfo returns what the server knows of the sandbox.
func (s *Sandbox) GetInfo(ctx context.Context) (*SandboxInfo, error) {
	return s.lifecycle.GetSandbox(ctx, s.id)
}

// PatchMetadata changes keys of the metadata.
func (s *Sandbox) PatchMetadata(ctx context.Context, patch MetadataPatch) (*SandboxInfo, error) {
	return s.lifecycle.PatchMetadata(ctx, s.id, patch)
}

// Ping reports an error unless the sandbox answers.
func (s *Sandbox) Ping(ctx context.Context) error { return s.execd.Ping(ctx) }

// IsHealthy reports whether the sandbox answers.
func (s *Sandbox) IsHealthy(ctx context.Context) bool { return s.Ping(ctx) == nil }

// Renew makes the sandbox expire a duration from now.
func (s *Sandbox) Renew(ctx context.Context, after time.Duration) (*RenewResponse, error) {
	return s.lifecycle.RenewExpiration(ctx, s.id, time.Now().Add(after))
}

// CreateSnapshot asks for a snapshot of the sandbox's files.
func (s *Sandbox) CreateSnapshot(ctx context.Context, req CreateSnapshotRequest,
) (*SnapshotInfo, error) {
	return s.lifecycle.CreateSnapshot(ctx, s.id, req)
}

// GetEndpoint returns the address of a port of the sandbox.
func (s *Sandbox) GetEndpoint(ctx context.Context, port int) (*Endpoint, error) {
	return s.lifecycle.GetEndpoint(ctx, s.id, port, s.config.UseServerProxy)
}

// GetSignedEndpoint returns an address that works without headers until expires.
func (s *Sandbox) GetSignedEndpoint(ctx context.Context, port int, expires time.Time,
) (*Endpoint, error) {
	return s.lifecycle.GetSignedEndpoint(ctx, s.id, port, expires, s.config.UseServerProxy)
}

// Fork makes count sandboxes of this one's files and returns them once they answer.
func (s *Sandbox) Fork(ctx context.Context, req ForkRequest) ([]*Sandbox, error) {
	infos, err := s.lifecycle.Fork(ctx, s.id, req)
	if err != nil {
		return nil, err
	}
	forks := make([]*Sandbox, 0, len(infos))
	for i := range infos {
		fork := newSandbox(s.config, infos[i].ID)
		if err := fork.open(ctx, ReadyOptions{}, false); err != nil {
			return forks, err
		}
		forks = append(forks, fork)
	}
	return forks, nil
}

// egressClient finds the egress engine when it is first needed.
func (s *Sandbox) egressClient(ctx context.Context) (*EgressClient, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.egress == nil {
		address, opts, err := s.portClient(ctx, DefaultEgressPort)
		if err != nil {
			return nil, err
		}
		s.egress = NewEgressClient(address, "", opts...)
	}
	return s.egress, nil
}
