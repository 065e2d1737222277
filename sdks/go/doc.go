// Package opensandbox is a client of OpenSandbox: it creates sandboxes, runs commands and code in them,
// moves files in and out, and deletes them. It needs only the standard library.
//
//	sb, err := opensandbox.CreateSandbox(ctx, opensandbox.ConnectionConfig{},
//		opensandbox.SandboxCreateOptions{Image: "python:3.12"})
//	if err != nil {
//		return err
//	}
//	defer sb.Kill(context.Background())
//	run, err := sb.RunCommand(ctx, "echo hello", nil)
//	fmt.Println(run.Text())
//
// Every call takes a context. A call ends when its context ends; a unary call also ends after
// ConnectionConfig.RequestTimeout. Streams have no time limit of their own. A *Sandbox and a
// *SandboxManager may be used by several goroutines at once.
//
// The API key goes to the lifecycle API only. Calls into a sandbox carry the headers that the server
// returned with the endpoint.
package opensandbox
