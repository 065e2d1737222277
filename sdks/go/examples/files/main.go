// files moves files both ways: one by one as streams, and a directory as a tar archive.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"strings"

	opensandbox "github.com/alibaba/OpenSandbox/sdks/sandbox/go"
)

func run(ctx context.Context) error {
	sandbox, err := opensandbox.CreateSandbox(ctx, opensandbox.ConnectionConfig{},
		opensandbox.SandboxCreateOptions{Image: "python:3.12"})
	if err != nil {
		return err
	}
	defer sandbox.Close()
	defer sandbox.Kill(ctx)

	err = sandbox.UploadFile(ctx, strings.NewReader("first\nsecond\nthird\n"),
		opensandbox.UploadFileOptions{Metadata: opensandbox.FileMetadata{Path: "/tmp/in/lines.txt",
			Mode: 644}})
	if err != nil {
		return err
	}
	line, err := sandbox.DownloadFile(ctx, "/tmp/in/lines.txt", "",
		opensandbox.DownloadFileOptions{Offset: 2, Limit: 1})
	if err != nil {
		return err
	}
	defer line.Close()
	text, err := io.ReadAll(line)
	if err != nil {
		return err
	}
	fmt.Printf("line 2: %s\n", text)

	archive, err := sandbox.Execd().DownloadDirectory(ctx, "/tmp/in")
	if err != nil {
		return err
	}
	defer archive.Close()
	if err := sandbox.Execd().UploadDirectory(ctx, "/tmp/copy", archive); err != nil {
		return err
	}
	found, err := sandbox.SearchFiles(ctx, "/tmp/copy", "*.txt")
	if err != nil {
		return err
	}
	for _, file := range found {
		fmt.Println(file.Path, file.Size)
	}
	return nil
}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
