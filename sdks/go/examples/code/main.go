// code runs cells that share variables, and takes a chart as a picture.
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	opensandbox "github.com/alibaba/OpenSandbox/sdks/sandbox/go"
)

const chart = `
class Chart:
    def _repr_svg_(self):
        bars = "".join(f'<rect x="{10 * n}" y="{50 - v}" width="8" height="{v}"/>'
                       for n, v in enumerate(values))
        return f'<svg xmlns="http://www.w3.org/2000/svg">{bars}</svg>'

Chart()
`

func run(ctx context.Context) error {
	interpreter, err := opensandbox.CreateCodeInterpreter(ctx, opensandbox.ConnectionConfig{},
		opensandbox.CodeInterpreterCreateOptions{})
	if err != nil {
		return err
	}
	defer interpreter.Close()
	defer interpreter.Kill(ctx)

	if _, err := interpreter.Execute(ctx, "python", "values = [n * n for n in range(7)]", nil); err != nil {
		return err
	}
	cell, err := interpreter.Execute(ctx, "python", "sum(values)", nil)
	if err != nil {
		return err
	}
	fmt.Println("sum:", cell.ResultText())

	cell, err = interpreter.Execute(ctx, "python", chart, nil)
	if err != nil {
		return err
	}
	for _, result := range cell.Results {
		if svg := result.Results["image/svg+xml"]; svg != "" {
			fmt.Println("chart.svg has", len(svg), "bytes")
			return os.WriteFile("chart.svg", []byte(svg), 0o644)
		}
	}
	return fmt.Errorf("no picture came: %+v", cell)
}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}
