// The same program in Go: four languages in one sandbox, each cell with its output and its result.
// usage: go run ./code-interpreter/go [LANGUAGE...]
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	opensandbox "github.com/alibaba/OpenSandbox/sdks/sandbox/go"
)

var languages = []string{"python", "java", "go", "typescript"}

var cells = map[string]string{
	"python": "import platform\nprint('Hello from Python', platform.python_version()[:2])\n" +
		"{'language': 'python', 'sum': 2 + 2}",
	"java": "System.out.println(\"Hello from Java\");\nint result = 2 + 3;\n" +
		"System.out.println(\"2 + 3 = \" + result);\nresult",
	"go": "package main\nimport \"fmt\"\nfunc main() {\n    fmt.Println(\"Hello from Go\")\n" +
		"    fmt.Println(\"3 + 4 =\", 3+4)\n}",
	"typescript": "const sum: number = [1, 2, 3].reduce((a, b) => a + b, 0);\n" +
		"console.log('Hello from TypeScript');\nconsole.log(`sum = ${sum}`);",
}

func env(name, usual string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return usual
}

func show(name, text string) {
	for _, line := range strings.Split(text, "\n") {
		if line != "" {
			fmt.Printf("[%s] %s\n", name, line)
		}
	}
}

func run(ctx context.Context, interpreter *opensandbox.CodeInterpreter, language string) error {
	fmt.Printf("=== %s ===\n", language)
	done, err := interpreter.Execute(ctx, language, cells[language], nil)
	if err != nil {
		return err
	}
	show("stdout", done.Text())
	show("stderr", done.StderrText())
	show("result", done.ResultText())
	if done.Error != nil {
		return fmt.Errorf("the cell in %s failed: %s", language, done.Error.Value)
	}
	return nil
}

func main() {
	named := languages
	if len(os.Args) > 1 {
		named = os.Args[1:]
	}
	for _, language := range named {
		if cells[language] == "" {
			log.Fatalf("there is no cell in %s; there are %v", language, languages)
		}
	}
	ctx := context.Background()
	config := opensandbox.ConnectionConfig{Domain: env("SANDBOX_DOMAIN", "localhost:8080"),
		APIKey: os.Getenv("SANDBOX_API_KEY")}
	interpreter, err := opensandbox.CreateCodeInterpreter(ctx, config,
		opensandbox.CodeInterpreterCreateOptions{
			Image:      env("SANDBOX_IMAGE", "opensandbox/code-interpreter:latest"),
			Entrypoint: []string{"/opt/code-interpreter/code-interpreter.sh"}})
	if err != nil {
		log.Fatal(err)
	}
	defer interpreter.Kill(ctx)
	for _, language := range named {
		if err := run(ctx, interpreter, language); err != nil {
			log.Panic(err)
		}
	}
}
