// quickstart creates a sandbox, runs a command and a cell of Python in it, and deletes it.
package main

import (
	"context"
	"fmt"
	"log"

	opensandbox "github.com/alibaba/OpenSandbox/sdks/sandbox/go"
)

func main() {
	ctx := context.Background()
	interpreter, err := opensandbox.CreateCodeInterpreter(ctx, opensandbox.ConnectionConfig{},
		opensandbox.CodeInterpreterCreateOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer interpreter.Kill(ctx)

	run, err := interpreter.RunCommand(ctx, "echo 'Hello OpenSandbox!'", nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Text())

	cell, err := interpreter.Execute(ctx, "python", "import sys\nprint(sys.version)\n2 + 2", nil)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(cell.Text())
	fmt.Println(cell.ResultText())
}
