// vault gives requests a secret that the sandbox itself never sees.
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
			CredentialProxy: &opensandbox.CredentialProxyConfig{Enabled: true},
			NetworkPolicy: &opensandbox.NetworkPolicy{DefaultAction: "deny",
				Egress: []opensandbox.NetworkRule{{Action: "allow", Target: "api.example.org"}}}})
	if err != nil {
		return err
	}
	defer sandbox.Close()
	defer sandbox.Kill(ctx)

	state, err := sandbox.CreateCredentialVault(ctx, opensandbox.CredentialVaultCreateRequest{
		Credentials: []opensandbox.Credential{{Name: "token",
			Source: opensandbox.CredentialSource{Type: "inline", Value: "s3cret"}}},
		Bindings: []opensandbox.CredentialBinding{{Name: "api",
			Match: opensandbox.CredentialMatch{Hosts: []string{"api.example.org"}},
			Auth:  opensandbox.CredentialAuth{Type: "bearer", Credential: "token"}}}})
	if err != nil {
		return err
	}
	fmt.Printf("revision %d has %d credential\n", state.Revision, len(state.Credentials))
	return nil
}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
