package opensandbox

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrPoolClosed is the error of a pool that was closed.
var ErrPoolClosed = errors.New("opensandbox: the pool is closed")

const (
	defaultPoolIdle        = 2
	defaultPoolIdleTimeout = 10 * time.Minute
	poolWarmupsMax         = 4
)

// SandboxPoolOptions says what a SandboxPool keeps ready.
type SandboxPoolOptions struct {
	Config  ConnectionConfig
	Create  SandboxCreateOptions // TimeoutSeconds and ManualCleanup are the pool's: leave them unset
	MaxIdle int                  // 2 unless given
	// IdleTimeout is the time to live of an idle sandbox, 10 minutes unless given. The pool renews it;
	// what a program that was killed leaves behind ends by it.
	IdleTimeout time.Duration
	// Prepare makes a sandbox ready for its user, before it is idle. An error discards the sandbox.
	Prepare func(ctx context.Context, sandbox *Sandbox) error
	// OnError is told why a sandbox could not be made; it is tried again after a pause.
	OnError func(error)
}

// SandboxPool keeps idle sandboxes, so that Acquire needs not wait for one to start. It lives in this process;
// pools that several processes share are those of the server (CreatePool of LifecycleClient). Its
// methods may be called from all goroutines.
type SandboxPool struct {
	opts   SandboxPoolOptions
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup
	lack   chan struct{} // one token for each idle sandbox that is missing

	lock sync.Mutex // guards idle
	idle []idleSandbox
}

type idleSandbox struct {
	sandbox *Sandbox
	renewed time.Time
}

// NewSandboxPool starts to fill a pool. Close it.
func NewSandboxPool(opts SandboxPoolOptions) (*SandboxPool, error) {
	opts.MaxIdle = orDefault(opts.MaxIdle, defaultPoolIdle)
	opts.IdleTimeout = orDefault(opts.IdleTimeout, defaultPoolIdleTimeout)
	if opts.MaxIdle < 0 || opts.IdleTimeout < time.Second {
		return nil, &InvalidArgumentError{Field: "MaxIdle",
			Message: "must not be negative, and IdleTimeout at least a second"}
	}
	if opts.Create.TimeoutSeconds != nil || opts.Create.ManualCleanup {
		return nil, &InvalidArgumentError{Field: "Create", Message: "has no time to live of its own"}
	}
	if opts.Create.IdempotencyKey != "" {
		return nil, &InvalidArgumentError{Field: "Create", Message: "makes many sandboxes: no IdempotencyKey"}
	}
	seconds := int(opts.IdleTimeout / time.Second)
	opts.Create.TimeoutSeconds = &seconds
	if err := firstError(opts.Config.check(), opts.Create.check()); err != nil {
		return nil, err
	}
	p := &SandboxPool{opts: opts, lack: make(chan struct{}, opts.MaxIdle)}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	for n := 0; n < opts.MaxIdle; n++ {
		p.lack <- struct{}{}
	}
	for n := 0; n < opts.MaxIdle && n < poolWarmupsMax; n++ {
		p.start(p.fill)
	}
	p.start(p.keepAlive)
	return p, nil
}

func (p *SandboxPool) start(loop func()) {
	p.work.Add(1)
	go func() {
		defer p.work.Done()
		loop()
	}()
}

// fill makes sandboxes while some are missing.
func (p *SandboxPool) fill() {
	pause := 100 * time.Millisecond
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-p.lack:
		}
		sandbox, err := p.make(p.ctx)
		if err == nil {
			p.put(idleSandbox{sandbox, time.Now()})
			pause = 100 * time.Millisecond
			continue
		}
		p.lack <- struct{}{}
		if p.opts.OnError != nil && p.ctx.Err() == nil {
			p.opts.OnError(err)
		}
		if sleep(p.ctx, pause) != nil {
			return
		}
		if pause *= 2; pause > 10*time.Second {
			pause = 10 * time.Second
		}
	}
}

// make creates a sandbox and prepares it.
func (p *SandboxPool) make(ctx context.Context) (*Sandbox, error) {
	sandbox, err := CreateSandbox(ctx, p.opts.Config, p.opts.Create)
	if err != nil || p.opts.Prepare == nil {
		return sandbox, err
	}
	if err := p.opts.Prepare(ctx, sandbox); err != nil {
		discard(sandbox)
		return nil, err
	}
	return sandbox, nil
}

// discard ends a sandbox that nobody will use, whatever became of the caller's context.
func discard(sandbox *Sandbox) error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanupTimeout)
	defer cancel()
	defer sandbox.Close()
	if err := sandbox.Kill(ctx); err != nil && !IsNotFound(err) {
		return err
	}
	return nil
}

func (p *SandboxPool) put(entry idleSandbox) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.idle = append(p.idle, entry)
}

// take removes the oldest idle sandbox that wanted selects.
func (p *SandboxPool) take(wanted func(idleSandbox) bool) (idleSandbox, bool) {
	p.lock.Lock()
	defer p.lock.Unlock()
	for n, entry := range p.idle {
		if wanted(entry) {
			p.idle = append(p.idle[:n:n], p.idle[n+1:]...)
			return entry, true
		}
	}
	return idleSandbox{}, false
}

// keepAlive renews sandboxes that were idle for half of their time, and replaces those that ended.
func (p *SandboxPool) keepAlive() {
	for sleep(p.ctx, p.opts.IdleTimeout/4) == nil {
		old := func(e idleSandbox) bool { return time.Since(e.renewed) > p.opts.IdleTimeout/2 }
		for entry, found := p.take(old); found; entry, found = p.take(old) {
			if _, err := entry.sandbox.Renew(p.ctx, p.opts.IdleTimeout); err != nil {
				discard(entry.sandbox)
				p.lack <- struct{}{}
				continue
			}
			entry.renewed = time.Now()
			p.put(entry)
		}
	}
}

// Idle returns how many sandboxes are ready.
func (p *SandboxPool) Idle() int {
	p.lock.Lock()
	defer p.lock.Unlock()
	return len(p.idle)
}

// Acquire returns a sandbox that lives for so long and is the caller's to Kill and Close: an idle one
// that still answers, or else a new one.
func (p *SandboxPool) Acquire(ctx context.Context, lifetime time.Duration) (*Sandbox, error) {
	if p.ctx.Err() != nil {
		return nil, ErrPoolClosed
	}
	if lifetime < time.Second {
		return nil, &InvalidArgumentError{Field: "lifetime", Message: "must be at least a second"}
	}
	first := func(idleSandbox) bool { return true }
	for entry, found := p.take(first); found; entry, found = p.take(first) {
		p.lack <- struct{}{}
		_, err := entry.sandbox.Renew(ctx, lifetime)
		if err == nil && entry.sandbox.IsHealthy(ctx) {
			return entry.sandbox, nil
		}
		discard(entry.sandbox)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	sandbox, err := p.make(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := sandbox.Renew(ctx, lifetime); err != nil {
		discard(sandbox)
		return nil, err
	}
	return sandbox, nil
}

// Close ends the idle sandboxes. Those that were acquired stay.
func (p *SandboxPool) Close() error {
	p.cancel()
	p.work.Wait()
	var first error
	all := func(idleSandbox) bool { return true }
	for entry, found := p.take(all); found; entry, found = p.take(all) {
		first = firstError(first, discard(entry.sandbox))
	}
	return first
}
