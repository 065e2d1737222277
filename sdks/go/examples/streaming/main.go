// streaming prints the output of a command while it runs, and moves a file in and out.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	opensandbox "github.com/alibaba/OpenSandbox/sdks/sandbox/go"
)

func main() {
	ctx := context.Background()
	sandbox, err := opensandbox.CreateSandbox(ctx, opensandbox.ConnectionConfig{},
		opensandbox.SandboxCreateOptions{Image: "python:3.12"})
	if err != nil {
		log.Fatal(err)
	}
	defer sandbox.Kill(ctx)

	err = sandbox.UploadFile(ctx, strings.NewReader("for i in 1 2 3; do echo line $i; done\n"),
		opensandbox.UploadFileOptions{Metadata: opensandbox.FileMetadata{Path: "/tmp/run.sh", Mode: 644}})
	if err != nil {
		log.Fatal(err)
	}
	_, err = sandbox.RunCommand(ctx, "sh /tmp/run.sh | tee /tmp/out.txt", &opensandbox.ExecutionHandlers{
		SkipAccumulation: true,
		OnStdout: func(m opensandbox.OutputMessage) error {
			_, err := fmt.Println(m.Text)
			return err
		}})
	if err != nil {
		log.Fatal(err)
	}
	file, err := sandbox.DownloadFile(ctx, "/tmp/out.txt", "")
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	if _, err := io.Copy(os.Stdout, file); err != nil {
		log.Fatal(err)
	}
}
