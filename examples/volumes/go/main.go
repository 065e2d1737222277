// A named volume in Go: one sandbox writes, another reads and cannot write.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	opensandbox "github.com/alibaba/OpenSandbox/sdks/sandbox/go"
)

func env(name, usual string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return usual
}

func create(ctx context.Context, readOnly bool) *opensandbox.Sandbox {
	box, err := opensandbox.CreateSandbox(ctx, opensandbox.ConnectionConfig{
		Domain: env("SANDBOX_DOMAIN", "localhost:8080"), APIKey: os.Getenv("SANDBOX_API_KEY")},
		opensandbox.SandboxCreateOptions{Image: env("SANDBOX_IMAGE", "host"),
			Volumes: []opensandbox.Volume{{Name: "data", MountPath: "/mnt/data", ReadOnly: readOnly,
				PVC: &opensandbox.PVCVolume{ClaimName: "opensandbox-go-demo",
					DeleteOnSandboxTermination: true}}}})
	if err != nil {
		log.Panic(err)
	}
	return box
}

func main() {
	ctx := context.Background()
	writer := create(ctx, false)
	defer writer.Kill(ctx)
	reader := create(ctx, true)
	defer reader.Kill(ctx)
	if _, err := writer.RunCommand(ctx, "echo hello-from-named-volume > /mnt/data/marker.txt", nil); err != nil {
		log.Panic(err)
	}
	read, err := reader.RunCommand(ctx, "cat /mnt/data/marker.txt", nil)
	if err != nil {
		log.Panic(err)
	}
	fmt.Println("read:", read.Text())
	refused, err := reader.RunCommand(ctx, "touch /mnt/data/x", nil)
	if err != nil {
		log.Panic(err)
	}
	fmt.Println("write refused:", refused.ExitCode != nil && *refused.ExitCode != 0)
}
