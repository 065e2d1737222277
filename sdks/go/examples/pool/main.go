// pool takes sandboxes that were made before they are needed.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	opensandbox "github.com/alibaba/OpenSandbox/sdks/sandbox/go"
)

func run(ctx context.Context) error {
	pool, err := opensandbox.NewSandboxPool(opensandbox.SandboxPoolOptions{
		Create:  opensandbox.SandboxCreateOptions{Image: "python:3.12"},
		MaxIdle: 2,
		Prepare: func(ctx context.Context, sandbox *opensandbox.Sandbox) error {
			return sandbox.CreateDirectory(ctx, "/work", 755)
		},
	})
	if err != nil {
		return err
	}
	defer pool.Close()

	sandbox, err := pool.Acquire(ctx, 5*time.Minute)
	if err != nil {
		return err
	}
	defer sandbox.Close()
	defer sandbox.Kill(ctx)
	done, err := sandbox.RunCommand(ctx, "cd /work && echo from the pool", nil)
	if err != nil {
		return err
	}
	fmt.Println(done.Text())
	return nil
}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
