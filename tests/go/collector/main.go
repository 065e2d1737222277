// collector receives OTLP over HTTP with the receiver of the OpenTelemetry collector, and prints
// what arrived: per request a line "traces", "metrics" or "logs", a blank, and the data as OTLP
// JSON. Its argument is the address to listen on. It ends with its standard input.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"sync"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
)

var printing sync.Mutex

func show(kind string, text []byte, err error) error {
	if err != nil {
		return err
	}
	printing.Lock()
	defer printing.Unlock()
	_, err = fmt.Printf("%s %s\n", kind, text)
	return err
}

func check[T any](value T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return value
}

func main() {
	ctx := context.Background()
	factory := otlpreceiver.NewFactory()
	conf := factory.CreateDefaultConfig()
	given := confmap.NewFromStringMap(map[string]any{"protocols": map[string]any{
		"http": map[string]any{"endpoint": os.Args[1]}}})
	if err := given.Unmarshal(conf); err != nil {
		log.Fatal(err)
	}
	settings := receiver.Settings{
		ID:                component.NewID(factory.Type()),
		TelemetrySettings: componenttest.NewNopTelemetrySettings(),
		BuildInfo:         component.NewDefaultBuildInfo(),
	}
	traces := check(consumer.NewTraces(func(_ context.Context, t ptrace.Traces) error {
		text, err := (&ptrace.JSONMarshaler{}).MarshalTraces(t)
		return show("traces", text, err)
	}))
	metrics := check(consumer.NewMetrics(func(_ context.Context, m pmetric.Metrics) error {
		text, err := (&pmetric.JSONMarshaler{}).MarshalMetrics(m)
		return show("metrics", text, err)
	}))
	logs := check(consumer.NewLogs(func(_ context.Context, l plog.Logs) error {
		text, err := (&plog.JSONMarshaler{}).MarshalLogs(l)
		return show("logs", text, err)
	}))
	parts := []component.Component{
		check(factory.CreateTraces(ctx, settings, conf, traces)),
		check(factory.CreateMetrics(ctx, settings, conf, metrics)),
		check(factory.CreateLogs(ctx, settings, conf, logs)),
	}
	for _, part := range parts {
		if err := part.Start(ctx, componenttest.NewNopHost()); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("ready {}")
	_, _ = io.Copy(io.Discard, os.Stdin)
	for _, part := range parts {
		_ = part.Shutdown(ctx)
	}
}
