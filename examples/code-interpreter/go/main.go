// The same program in Go: a cell of Python, its output and its result.
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

func main() {
	ctx := context.Background()
	config := opensandbox.ConnectionConfig{Domain: env("SANDBOX_DOMAIN", "localhost:8080"),
		APIKey: os.Getenv("SANDBOX_API_KEY")}
	interpreter, err := opensandbox.CreateCodeInterpreter(ctx, config,
		opensandbox.CodeInterpreterCreateOptions{
			Image: env("SANDBOX_IMAGE", "opensandbox/code-interpreter:latest")})
	if err != nil {
		log.Fatal(err)
	}
	defer interpreter.Kill(ctx)
	run, err := interpreter.Execute(ctx, "python",
		"print('Hello from Python')\n{'language': 'python', 'sum': 2 + 2}", nil)
	if err != nil {
		log.Panic(err)
	}
	fmt.Println("[stdout]", run.Text())
	fmt.Println("[result]", run.ResultText())
}
