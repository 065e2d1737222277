// egress says what a sandbox may talk to, and changes it while the sandbox runs.
package main

import (
	"context"
	"fmt"
	"log"

	opensandbox "github.com/alibaba/OpenSandbox/sdks/sandbox/go"
)

func run(ctx context.Context) error {
	sandbox, err := opensandbox.CreateSandbox(ctx, opensandbox.ConnectionConfig{},
		opensandbox.SandboxCreateOptions{Image: "python:3.12",
			NetworkPolicy: &opensandbox.NetworkPolicy{DefaultAction: "deny",
				Egress: []opensandbox.NetworkRule{{Action: "allow", Target: "*.example.org"}}}})
	if err != nil {
		return err
	}
	defer sandbox.Close()
	defer sandbox.Kill(ctx)

	_, err = sandbox.PatchEgressRules(ctx,
		[]opensandbox.NetworkRule{{Action: "allow", Target: "pypi.org"}})
	if err != nil {
		return err
	}
	now, err := sandbox.GetEgressPolicy(ctx)
	if err != nil {
		return err
	}
	for _, rule := range now.Policy.Egress {
		fmt.Println(rule.Action, rule.Target)
	}
	return nil
}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
