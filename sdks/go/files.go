package opensandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"os"
	"path"
	"strconv"
)

// MoveRequest, PermissionsRequest and ReplaceRequest are bodies of file calls.
type (
	MoveRequest        []MoveEntry
	PermissionsRequest map[string]PermissionEntry
	ReplaceRequest     map[string]ReplaceEntry
)

// UploadFileOptions says where an uploaded file goes.
type UploadFileOptions struct {
	FileName string // of the multipart part; the base name of the path unless given
	Metadata FileMetadata
}

// UploadFileEntry is one file of an upload.
type UploadFileEntry struct {
	File    io.Reader
	Options UploadFileOptions
}

// DownloadFileOptions selects lines: Offset counts from 1, Limit is a number of lines.
type DownloadFileOptions struct {
	Offset int
	Limit  int
}

const defaultMode = 755 // of files and directories that are made without a mode

// OctalMode converts 0o755 to 755, the form that the API uses.
func OctalMode(mode os.FileMode) int {
	value, _ := strconv.Atoi(strconv.FormatUint(uint64(mode.Perm()), 8))
	return value
}

// GetFileInfo returns what is at the paths, by path.
func (c *ExecdClient) GetFileInfo(ctx context.Context, paths ...string) (map[string]FileInfo, error) {
	var out map[string]FileInfo
	err := c.get(ctx, "/files/info", url.Values{"path": paths}, &out)
	return out, err
}

// DeleteFiles removes files.
func (c *ExecdClient) DeleteFiles(ctx context.Context, paths ...string) error {
	return c.delete(ctx, "/files", url.Values{"path": paths})
}

// MoveFiles renames files and directories.
func (c *ExecdClient) MoveFiles(ctx context.Context, req MoveRequest) error {
	return c.post(ctx, "/files/mv", req, nil)
}

// SearchFiles returns files below a directory whose names match a glob pattern.
func (c *ExecdClient) SearchFiles(ctx context.Context, dir, pattern string) ([]FileInfo, error) {
	var out []FileInfo
	err := c.get(ctx, "/files/search", url.Values{"path": {dir}, "pattern": {pattern}}, &out)
	return out, err
}

// ListDirectory returns what is in a directory; a depth of 0 is the server's default.
func (c *ExecdClient) ListDirectory(ctx context.Context, dir string, depth int) ([]FileInfo, error) {
	query := url.Values{"path": {dir}}
	if depth > 0 {
		query.Set("depth", strconv.Itoa(depth))
	}
	var out []FileInfo
	err := c.get(ctx, "/directories/list", query, &out)
	return out, err
}

// SetPermissions changes modes and owners.
func (c *ExecdClient) SetPermissions(ctx context.Context, req PermissionsRequest) error {
	return c.post(ctx, "/files/permissions", req, nil)
}

// CreateDirectory makes a directory and its parents; a mode is decimal digits read as octal.
func (c *ExecdClient) CreateDirectory(ctx context.Context, dir string, mode int) error {
	return c.CreateDirectories(ctx, PermissionsRequest{dir: {Mode: int64(mode)}})
}

// CreateDirectories makes directories and their parents, by path; a mode of 0 is 755.
func (c *ExecdClient) CreateDirectories(ctx context.Context, req PermissionsRequest) error {
	body := PermissionsRequest{}
	for name, entry := range req {
		entry.Mode = orDefault(entry.Mode, defaultMode)
		body[name] = entry
	}
	return c.post(ctx, "/directories", body, nil)
}

// DeleteDirectory removes a directory with all that is in it.
func (c *ExecdClient) DeleteDirectory(ctx context.Context, dir string) error {
	return c.delete(ctx, "/directories", url.Values{"path": {dir}})
}

// ReplaceInFiles replaces text in files.
func (c *ExecdClient) ReplaceInFiles(ctx context.Context, req ReplaceRequest) error {
	return c.post(ctx, "/files/replace", req, nil)
}

// ReplaceInFilesDetailed does the same and returns how often, by path.
func (c *ExecdClient) ReplaceInFilesDetailed(ctx context.Context, req ReplaceRequest,
) (map[string]int, error) {
	var out map[string]struct {
		ReplacedCount int `json:"replacedCount"`
	}
	err := c.do(ctx, &request{method: http.MethodPost, path: "/files/replace", body: req,
		query: url.Values{"verbose": {"true"}}}, &out)
	counts := make(map[string]int, len(out))
	for name, count := range out {
		counts[name] = count.ReplacedCount
	}
	return counts, err
}

// UploadFiles sends files in one request, each as it is read.
func (c *ExecdClient) UploadFiles(ctx context.Context, files []UploadFileEntry) error {
	for _, file := range files {
		if err := needText("path", file.Options.Metadata.Path); err != nil {
			return err
		}
	}
	read, write := io.Pipe()
	form := multipart.NewWriter(write)
	go func() {
		write.CloseWithError(writeForm(form, files))
	}()
	defer read.Close()
	return c.do(ctx, &request{method: http.MethodPost, path: "/files/upload", body: io.Reader(read),
		contentType: form.FormDataContentType(), noTimeout: true}, nil)
}

func writeForm(form *multipart.Writer, files []UploadFileEntry) error {
	for _, file := range files {
		meta, err := form.CreatePart(partHeader("metadata", "metadata", "application/json"))
		if err != nil {
			return err
		}
		entry := file.Options.Metadata
		entry.Mode = orDefault(entry.Mode, defaultMode)
		if err := json.NewEncoder(meta).Encode(entry); err != nil {
			return err
		}
		name := orDefault(file.Options.FileName, path.Base(file.Options.Metadata.Path))
		part, err := form.CreatePart(partHeader("file", name, "application/octet-stream"))
		if err != nil {
			return err
		}
		if _, err := io.Copy(part, file.File); err != nil {
			return fmt.Errorf("read %s: %w", file.Options.Metadata.Path, err)
		}
	}
	return form.Close()
}

func partHeader(field, name, contentType string) textproto.MIMEHeader {
	return textproto.MIMEHeader{
		"Content-Disposition": {fmt.Sprintf("form-data; name=%q; filename=%q", field, name)},
		"Content-Type":        {contentType},
	}
}

// DownloadFile returns the bytes of a file. rangeHeader is an HTTP range such as "bytes=0-99" or empty.
// A whole file whose connection breaks is read on from there. Close the reader.
func (c *ExecdClient) DownloadFile(ctx context.Context, name, rangeHeader string,
	opts ...DownloadFileOptions) (io.ReadCloser, error) {
	query := url.Values{"path": {name}}
	for _, opt := range opts {
		if opt.Offset > 0 {
			query.Set("offset", strconv.Itoa(opt.Offset))
		}
		if opt.Limit > 0 {
			query.Set("limit", strconv.Itoa(opt.Limit))
		}
	}
	r := &request{method: http.MethodGet, path: "/files/download", query: query}
	if rangeHeader != "" {
		r.headers = map[string]string{"Range": rangeHeader}
	}
	res, err := c.open(ctx, r)
	if err != nil {
		return nil, err
	}
	if rangeHeader != "" || len(query) > 1 {
		return res.Body, nil
	}
	return &resumed{ctx: ctx, client: c, query: query, body: res}, nil
}

// isBroken reports whether a connection ended before its answer did.
func isBroken(err error) bool {
	var network *net.OpError
	return errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network)
}

// UploadDirectory unpacks a tar archive into a directory of the sandbox.
func (c *ExecdClient) UploadDirectory(ctx context.Context, dir string, tar io.Reader) error {
	return c.do(ctx, &request{method: http.MethodPost, path: "/directories/upload",
		query: url.Values{"path": {dir}}, body: tar, contentType: "application/x-tar",
		noTimeout: true}, nil)
}

// DownloadDirectory returns a directory of the sandbox as a tar archive. Close the reader.
func (c *ExecdClient) DownloadDirectory(ctx context.Context, dir string) (io.ReadCloser, error) {
	res, err := c.open(ctx, &request{method: http.MethodGet, path: "/directories/download",
		query: url.Values{"path": {dir}}})
	if err != nil {
		return nil, err
	}
	return res.Body, nil
}

// WatchDirectory calls take for every change below a directory until ctx ends or take returns an
// error.
func (c *ExecdClient) WatchDirectory(ctx context.Context, dir string, recursive bool,
	take func(WatchEvent) error) error {
	return c.endless(ctx, &request{method: http.MethodGet, path: "/directories/watch",
		query: url.Values{"path": {dir}, "recursive": {strconv.FormatBool(recursive)}}},
		func(event StreamEvent) error {
			var e WatchEvent
			if err := json.Unmarshal([]byte(event.Data), &e); err != nil {
				return fmt.Errorf("opensandbox: an event is not JSON: %w", err)
			}
			if e.Type == "ping" {
				return nil
			}
			return take(e)
		})
}
