package opensandbox

import (
	"context"
	"io"
)

// This file has the methods of Sandbox that pass a call on to execd or to the egress engine.

// RunCommand runs a shell command; handlers may be nil.
func (s *Sandbox) RunCommand(ctx context.Context, command string, handlers *ExecutionHandlers,
) (*Execution, error) {
	return s.execd.RunCommand(ctx, RunCommandRequest{Command: command}, handlers)
}

// RunCommandWithOpts runs a command with all that a request can say.
func (s *Sandbox) RunCommandWithOpts(ctx context.Context, req RunCommandRequest,
	handlers *ExecutionHandlers) (*Execution, error) {
	return s.execd.RunCommand(ctx, req, handlers)
}

// InterruptCommand ends a command.
func (s *Sandbox) InterruptCommand(ctx context.Context, id string) error {
	return s.execd.InterruptCommand(ctx, id)
}

// GetCommandStatus tells whether a command runs, and how it ended.
func (s *Sandbox) GetCommandStatus(ctx context.Context, id string) (*CommandStatus, error) {
	return s.execd.GetCommandStatus(ctx, id)
}

// GetCommandLogs returns output of a background command.
func (s *Sandbox) GetCommandLogs(ctx context.Context, id string, cursor *int64,
) (*CommandLogsResponse, error) {
	return s.execd.GetCommandLogs(ctx, id, cursor)
}

// WriteCommandInput sends to the standard input of a command.
func (s *Sandbox) WriteCommandInput(ctx context.Context, id string, input io.Reader, eof bool) error {
	return s.execd.WriteCommandInput(ctx, id, input, eof)
}

// CreateSession starts a shell that keeps its state between runs.
func (s *Sandbox) CreateSession(ctx context.Context) (string, error) {
	return s.execd.CreateSession(ctx, "")
}

// CreateSessionIn does the same in a directory.
func (s *Sandbox) CreateSessionIn(ctx context.Context, cwd string) (string, error) {
	return s.execd.CreateSession(ctx, cwd)
}

// RunInSession runs a command in a session.
func (s *Sandbox) RunInSession(ctx context.Context, id string, req RunInSessionRequest,
	handlers *ExecutionHandlers) (*Execution, error) {
	return s.execd.RunInSession(ctx, id, req, handlers)
}

// DeleteSession ends a session.
func (s *Sandbox) DeleteSession(ctx context.Context, id string) error {
	return s.execd.DeleteSession(ctx, id)
}

// GetIsolationCapabilities tells whether isolated sessions can be made, and how.
func (s *Sandbox) GetIsolationCapabilities(ctx context.Context) (*IsolatedCapabilities, error) {
	return s.execd.GetIsolationCapabilities(ctx)
}

// CreateIsolatedSession makes a sandbox inside the sandbox.
func (s *Sandbox) CreateIsolatedSession(ctx context.Context, req CreateIsolatedSessionRequest,
) (*IsolatedSession, error) {
	return s.execd.CreateIsolatedSession(ctx, req)
}

// AttachIsolatedSession returns an isolated session that is there already.
func (s *Sandbox) AttachIsolatedSession(ctx context.Context, id string) (*IsolatedSession, error) {
	return s.execd.AttachIsolatedSession(ctx, id)
}

// ListIsolatedSessions returns all isolated sessions.
func (s *Sandbox) ListIsolatedSessions(ctx context.Context) ([]IsolatedSessionSummary, error) {
	return s.execd.ListIsolatedSessions(ctx)
}

// RunIsolated runs shell code in an isolated session that is made for it.
func (s *Sandbox) RunIsolated(ctx context.Context, session CreateIsolatedSessionRequest,
	run IsolatedRunRequest, handlers *ExecutionHandlers) (*Execution, error) {
	return s.execd.RunIsolated(ctx, session, run, handlers)
}

// ExecuteCode runs a cell.
func (s *Sandbox) ExecuteCode(ctx context.Context, req RunCodeRequest, handlers *ExecutionHandlers,
) (*Execution, error) {
	return s.execd.ExecuteCode(ctx, req, handlers)
}

// CreateContext makes a code context.
func (s *Sandbox) CreateContext(ctx context.Context, req CreateContextRequest) (*CodeContext, error) {
	return s.execd.CreateContext(ctx, req)
}

// ListContexts returns the code contexts of a language.
func (s *Sandbox) ListContexts(ctx context.Context, language string) ([]CodeContext, error) {
	return s.execd.ListContexts(ctx, language)
}

// DeleteContext ends a code context.
func (s *Sandbox) DeleteContext(ctx context.Context, id string) error {
	return s.execd.DeleteContext(ctx, id)
}

// GetMetrics returns what the sandbox uses now.
func (s *Sandbox) GetMetrics(ctx context.Context) (*Metrics, error) { return s.execd.GetMetrics(ctx) }

// GetFileInfo returns what is at a path, by path.
func (s *Sandbox) GetFileInfo(ctx context.Context, path string) (map[string]FileInfo, error) {
	return s.execd.GetFileInfo(ctx, path)
}

// DeleteFiles removes files.
func (s *Sandbox) DeleteFiles(ctx context.Context, paths []string) error {
	return s.execd.DeleteFiles(ctx, paths...)
}

// MoveFiles renames files and directories.
func (s *Sandbox) MoveFiles(ctx context.Context, req MoveRequest) error {
	return s.execd.MoveFiles(ctx, req)
}

// SearchFiles returns files below a directory whose names match a glob pattern.
func (s *Sandbox) SearchFiles(ctx context.Context, dir, pattern string) ([]FileInfo, error) {
	return s.execd.SearchFiles(ctx, dir, pattern)
}

// ListDirectory returns what is in a directory.
func (s *Sandbox) ListDirectory(ctx context.Context, path string) ([]FileInfo, error) {
	return s.execd.ListDirectory(ctx, path, 0)
}

// ListDirectoryWithDepth returns what is below a directory, so many levels deep.
func (s *Sandbox) ListDirectoryWithDepth(ctx context.Context, path string, depth int,
) ([]FileInfo, error) {
	return s.execd.ListDirectory(ctx, path, depth)
}

// SetPermissions changes modes and owners.
func (s *Sandbox) SetPermissions(ctx context.Context, req PermissionsRequest) error {
	return s.execd.SetPermissions(ctx, req)
}

// UploadFile writes a file of the sandbox, as it is read.
func (s *Sandbox) UploadFile(ctx context.Context, file io.Reader, opts UploadFileOptions) error {
	return s.execd.UploadFiles(ctx, []UploadFileEntry{{File: file, Options: opts}})
}

// UploadFiles writes several in one request.
func (s *Sandbox) UploadFiles(ctx context.Context, files []UploadFileEntry) error {
	return s.execd.UploadFiles(ctx, files)
}

// DownloadFile returns the bytes of a file. Close the reader.
func (s *Sandbox) DownloadFile(ctx context.Context, path, rangeHeader string,
	opts ...DownloadFileOptions) (io.ReadCloser, error) {
	return s.execd.DownloadFile(ctx, path, rangeHeader, opts...)
}

// CreateDirectory makes a directory and its parents.
func (s *Sandbox) CreateDirectory(ctx context.Context, path string, mode int) error {
	return s.execd.CreateDirectory(ctx, path, mode)
}

// DeleteDirectory removes a directory with all that is in it.
func (s *Sandbox) DeleteDirectory(ctx context.Context, path string) error {
	return s.execd.DeleteDirectory(ctx, path)
}

// ReplaceInFiles replaces text in files.
func (s *Sandbox) ReplaceInFiles(ctx context.Context, req ReplaceRequest) error {
	return s.execd.ReplaceInFiles(ctx, req)
}

// ReplaceInFilesDetailed does the same and returns how often, by path.
func (s *Sandbox) ReplaceInFilesDetailed(ctx context.Context, req ReplaceRequest,
) (map[string]int, error) {
	return s.execd.ReplaceInFilesDetailed(ctx, req)
}

// GetEgressPolicy returns the network policy in force.
func (s *Sandbox) GetEgressPolicy(ctx context.Context) (*PolicyStatusResponse, error) {
	return withEgress(ctx, s, func(c *EgressClient) (*PolicyStatusResponse, error) {
		return c.GetPolicy(ctx)
	})
}

// PatchEgressRules merges rules into the network policy.
func (s *Sandbox) PatchEgressRules(ctx context.Context, rules []NetworkRule,
) (*PolicyStatusResponse, error) {
	if err := checkRules(rules); err != nil {
		return nil, err
	}
	return withEgress(ctx, s, func(c *EgressClient) (*PolicyStatusResponse, error) {
		return c.PatchRules(ctx, rules)
	})
}

// DeleteEgressRules removes the rules of targets.
func (s *Sandbox) DeleteEgressRules(ctx context.Context, targets []string,
) (*PolicyStatusResponse, error) {
	return withEgress(ctx, s, func(c *EgressClient) (*PolicyStatusResponse, error) {
		return c.DeleteRules(ctx, targets)
	})
}

// CredentialVault returns the client of the sandbox's credential vault.
func (s *Sandbox) CredentialVault(ctx context.Context) (*EgressClient, error) {
	return s.egressClient(ctx)
}

// CreateCredentialVault fills the vault.
func (s *Sandbox) CreateCredentialVault(ctx context.Context, req CredentialVaultCreateRequest,
) (*CredentialVaultState, error) {
	return withEgress(ctx, s, func(c *EgressClient) (*CredentialVaultState, error) {
		return c.CreateVault(ctx, req)
	})
}

// GetCredentialVault returns the vault without its secrets.
func (s *Sandbox) GetCredentialVault(ctx context.Context) (*CredentialVaultState, error) {
	return withEgress(ctx, s, func(c *EgressClient) (*CredentialVaultState, error) {
		return c.GetVault(ctx)
	})
}

// PatchCredentialVault changes the vault, all of it or nothing.
func (s *Sandbox) PatchCredentialVault(ctx context.Context, req CredentialVaultPatchRequest,
) (*CredentialVaultState, error) {
	return withEgress(ctx, s, func(c *EgressClient) (*CredentialVaultState, error) {
		return c.PatchVault(ctx, req)
	})
}

// DeleteCredentialVault empties the vault.
func (s *Sandbox) DeleteCredentialVault(ctx context.Context) error {
	client, err := s.egressClient(ctx)
	if err != nil {
		return err
	}
	return client.DeleteVault(ctx)
}

// ListCredentialVaultCredentials returns the names of the secrets.
func (s *Sandbox) ListCredentialVaultCredentials(ctx context.Context) ([]CredentialMetadata, error) {
	return withEgress(ctx, s, func(c *EgressClient) ([]CredentialMetadata, error) {
		return c.ListCredentials(ctx)
	})
}

// GetCredentialVaultCredential returns one of them.
func (s *Sandbox) GetCredentialVaultCredential(ctx context.Context, name string,
) (*CredentialMetadata, error) {
	return withEgress(ctx, s, func(c *EgressClient) (*CredentialMetadata, error) {
		return c.GetCredential(ctx, name)
	})
}

// ListCredentialVaultBindings returns the bindings.
func (s *Sandbox) ListCredentialVaultBindings(ctx context.Context,
) ([]CredentialBindingMetadata, error) {
	return withEgress(ctx, s, func(c *EgressClient) ([]CredentialBindingMetadata, error) {
		return c.ListBindings(ctx)
	})
}

// GetCredentialVaultBinding returns one of them.
func (s *Sandbox) GetCredentialVaultBinding(ctx context.Context, name string,
) (*CredentialBindingMetadata, error) {
	return withEgress(ctx, s, func(c *EgressClient) (*CredentialBindingMetadata, error) {
		return c.GetBinding(ctx, name)
	})
}

func withEgress[T any](ctx context.Context, s *Sandbox, run func(*EgressClient) (T, error),
) (T, error) {
	client, err := s.egressClient(ctx)
	if err != nil {
		var none T
		return none, err
	}
	return run(client)
}
