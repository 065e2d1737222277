// Forks in Go: three ways on from one sandbox, the best one is kept, a snapshot brings it back.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	opensandbox "github.com/alibaba/OpenSandbox/sdks/sandbox/go"
)

const test = "print(sum(f(x) == x * x for x in range(5)))"

var proposals = []string{"x * 2", "x ** 2", "x + 2"}

func env(name, usual string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return usual
}

func run(ctx context.Context, box *opensandbox.Sandbox, command string) string {
	done, err := box.RunCommand(ctx, command, nil)
	if err != nil || done.ExitCode == nil || *done.ExitCode != 0 {
		log.Panicf("%s: %v %v", command, err, done)
	}
	return strings.TrimSpace(done.Text())
}

func score(ctx context.Context, box *opensandbox.Sandbox) string {
	return run(ctx, box, "(cat /root/f.py; echo '"+test+"') | python3 -")
}

func main() {
	ctx := context.Background()
	node, err := opensandbox.CreateSandbox(ctx, opensandbox.ConnectionConfig{
		Domain: env("SANDBOX_DOMAIN", "localhost:8080"), APIKey: os.Getenv("SANDBOX_API_KEY")},
		opensandbox.SandboxCreateOptions{Image: env("SANDBOX_IMAGE", "host")})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = node.Kill(ctx) }()
	run(ctx, node, "echo 'f = lambda x: 0' > /root/f.py")
	fmt.Println("start:", score(ctx, node), "of 5 cases")
	forks, err := node.Fork(ctx, opensandbox.ForkRequest{Count: int64(len(proposals))})
	if err != nil {
		log.Panic(err)
	}
	best, scores := 0, make([]string, len(forks))
	for _, fork := range forks { // also when one of them fails
		defer fork.Kill(ctx)
	}
	for i, fork := range forks {
		run(ctx, fork, "echo 'f = lambda x: "+proposals[i]+"' > /root/f.py")
		scores[i] = score(ctx, fork)
		if scores[i] > scores[best] {
			best = i
		}
	}
	fmt.Println("forks:", strings.Join(scores, " ")+", took", best)
	for i, fork := range forks {
		if i != best {
			_ = fork.Kill(ctx)
		}
	}
	_ = node.Kill(ctx)
	node = forks[best]
	snapshot, err := node.CreateSnapshot(ctx, opensandbox.CreateSnapshotRequest{})
	if err != nil {
		log.Panic(err)
	}
	defer node.Lifecycle().DeleteSnapshot(ctx, snapshot.ID)
	if _, err = node.Lifecycle().WaitForSnapshot(ctx, snapshot.ID); err != nil {
		log.Panic(err)
	}
	run(ctx, node, "rm /root/f.py")
	if _, err = node.Lifecycle().Rollback(ctx, node.ID(), snapshot.ID); err != nil {
		log.Panic(err)
	}
	fmt.Println("after rollback:", score(ctx, node), "of 5 cases")
}
