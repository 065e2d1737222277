package opensandbox

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// withSandboxes makes the recorder serve as many sandboxes as are asked for: s1, s2, ...
func (r *recorder) withSandboxes() (made, killed *atomic.Int64) {
	made, killed = &atomic.Int64{}, &atomic.Int64{}
	r.routes["POST /v1/sandboxes"] = func(w http.ResponseWriter, _ *http.Request) {
		id := fmt.Sprintf("s%d", made.Add(1))
		w.WriteHeader(http.StatusAccepted)
		fmt.Fprintf(w, `{"id":%q,"status":{"state":"Running"}}`, id)
	}
	for n := 1; n <= 20; n++ {
		path := fmt.Sprintf("/v1/sandboxes/s%d", n)
		r.on("GET "+path+"/endpoints/44772", `{"endpoint":"`+r.domain()+`/box"}`)
		r.routes["POST "+path+"/renew-expiration"] = func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, `{"expiresAt":"2026-07-01T09:30:00Z"}`)
		}
		r.routes["DELETE "+path] = func(w http.ResponseWriter, _ *http.Request) {
			killed.Add(1)
			w.WriteHeader(http.StatusNoContent)
		}
	}
	r.on("GET /box/ping", "")
	return made, killed
}

// poolTime is the longest wait for sandboxes of a pool, which a real server on a busy machine may make.
const poolTime = 2 * time.Minute

func waitForIdle(t *testing.T, pool *SandboxPool, count int) {
	t.Helper()
	for end := time.Now().Add(poolTime); pool.Idle() != count; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d are idle, not %d", pool.Idle(), count)
		}
	}
}

func TestAPoolKeepsSandboxesReady(t *testing.T) {
	r := newRecorder(t)
	made, killed := r.withSandboxes()
	prepared := &atomic.Int64{}
	pool, err := NewSandboxPool(SandboxPoolOptions{Config: r.config(),
		Create: SandboxCreateOptions{Image: "i"}, MaxIdle: 2,
		Prepare: func(context.Context, *Sandbox) error { prepared.Add(1); return nil }})
	must(t, err)
	waitForIdle(t, pool, 2)
	sandbox, err := pool.Acquire(context.Background(), time.Minute)
	must(t, err)
	waitForIdle(t, pool, 2)
	if made.Load() != 3 || prepared.Load() != 3 {
		t.Errorf("%d made, %d prepared", made.Load(), prepared.Load())
	}
	must(t, pool.Close())
	if killed.Load() != 2 {
		t.Errorf("%d killed: the idle ones and no other", killed.Load())
	}
	must(t, sandbox.Kill(context.Background()))
	if _, err := pool.Acquire(context.Background(), time.Minute); !errors.Is(err, ErrPoolClosed) {
		t.Errorf("error %v", err)
	}
}

func TestAPoolPassesOverIdleSandboxesThatEnded(t *testing.T) {
	r := newRecorder(t)
	made, _ := r.withSandboxes()
	delete(r.routes, "POST /v1/sandboxes/s1/renew-expiration") // 404: it is gone
	pool, err := NewSandboxPool(SandboxPoolOptions{Config: r.config(),
		Create: SandboxCreateOptions{Image: "i"}, MaxIdle: 1})
	must(t, err)
	waitForIdle(t, pool, 1)
	sandbox, err := pool.Acquire(context.Background(), time.Minute)
	must(t, err)
	if sandbox.ID() == "s1" || made.Load() < 2 {
		t.Errorf("%s of %d", sandbox.ID(), made.Load())
	}
	must(t, pool.Close())
}

func TestAPoolTriesAgainAndTellsWhy(t *testing.T) {
	r := newRecorder(t)
	r.withSandboxes()
	works, fails := r.routes["POST /v1/sandboxes"], 0
	r.routes["POST /v1/sandboxes"] = func(w http.ResponseWriter, req *http.Request) {
		if fails++; fails < 2 {
			w.WriteHeader(http.StatusConflict)
			return
		}
		works(w, req)
	}
	told := make(chan error, 10)
	pool, err := NewSandboxPool(SandboxPoolOptions{Config: r.config(), MaxIdle: 1,
		Create: SandboxCreateOptions{Image: "i"}, OnError: func(err error) { told <- err }})
	must(t, err)
	var api *APIError
	if err := <-told; !errors.As(err, &api) || api.StatusCode != http.StatusConflict {
		t.Errorf("error %v", err)
	}
	waitForIdle(t, pool, 1)
	must(t, pool.Close())
	if _, err := NewSandboxPool(SandboxPoolOptions{}); err == nil {
		t.Error("a pool without an image was made")
	}
}

func TestServerPool(t *testing.T) {
	ctx, _ := realSandbox(t)
	pool, err := NewSandboxPool(SandboxPoolOptions{Create: SandboxCreateOptions{Image: "host"}, MaxIdle: 1})
	must(t, err)
	waitForIdle(t, pool, 1)
	sandbox, err := pool.Acquire(ctx, time.Minute)
	must(t, err)
	run, err := sandbox.RunCommand(ctx, "echo pooled", nil)
	must(t, err)
	if run.Text() != "pooled" {
		t.Errorf("%+v", run)
	}
	must(t, sandbox.Kill(ctx))
	must(t, pool.Close())
}

func TestPoolRefusesAKey(t *testing.T) {
	_, err := NewSandboxPool(SandboxPoolOptions{MaxIdle: 1,
		Create: SandboxCreateOptions{Image: "i", IdempotencyKey: "k"}})
	var wrong *InvalidArgumentError
	if !errors.As(err, &wrong) {
		t.Errorf("%v", err)
	}
}
