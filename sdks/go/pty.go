package opensandbox

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // RFC 6455 demands it; it protects nothing
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
)

// frameBytesMax bounds one WebSocket frame; the server replays at most 1 MiB.
const frameBytesMax = 4 << 20

// Opcodes of RFC 6455.
const (
	opText   = 0x1
	opBinary = 0x2
	opClose  = 0x8
	opPing   = 0x9
	opPong   = 0xA
)

// Channels of binary frames.
const (
	channelStdin  = 0
	channelStdout = 1
	channelStderr = 2
	channelReplay = 3
)

// PTY is a terminal of a sandbox. Read returns its output and io.EOF once its program has ended; Write
// sends keys. One goroutine may read while others write.
type PTY struct {
	id     string
	conn   io.ReadWriteCloser
	in     *bufio.Reader
	lock   sync.Mutex // guards writes to conn
	rest   []byte     // output that Read has not returned yet
	offset int64
	exit   *int
}

// CreatePTY makes a terminal session; its program starts with the first AttachPTY.
func (c *ExecdClient) CreatePTY(ctx context.Context, opts PTYOptions) (string, error) {
	var out PTYInfo
	err := c.post(ctx, "/pty", opts, &out)
	return out.SessionID, err
}

// GetPTY tells whether the program of a terminal session runs.
func (c *ExecdClient) GetPTY(ctx context.Context, id string) (*PTYInfo, error) {
	var out PTYInfo
	return result(&out, c.get(ctx, "/pty/"+url.PathEscape(id), nil, &out))
}

// DeletePTY ends a terminal session and its program.
func (c *ExecdClient) DeletePTY(ctx context.Context, id string) error {
	return c.delete(ctx, "/pty/"+url.PathEscape(id), nil)
}

// AttachPTY connects to a terminal session and replays its output from byte since on. With takeover a
// client that is connected is sent away. The session goes on when ctx ends; the connection does not.
func (c *ExecdClient) AttachPTY(ctx context.Context, id string, since int64, takeover bool,
) (*PTY, error) {
	query := url.Values{"since": {strconv.FormatInt(since, 10)}}
	if takeover {
		query.Set("takeover", "1")
	}
	var nonce [16]byte
	if _, err := rand.Read(nonce[:]); err != nil {
		return nil, err
	}
	key := base64.StdEncoding.EncodeToString(nonce[:])
	req, err := c.build(ctx, &request{method: http.MethodGet, path: "/pty/" + url.PathEscape(id) + "/ws",
		query: query, headers: map[string]string{"Connection": "Upgrade", "Upgrade": "websocket",
			"Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": key}})
	if err != nil {
		return nil, err
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("opensandbox: attach to %s: %w", id, err)
	}
	conn, ok := res.Body.(io.ReadWriteCloser)
	if res.StatusCode != http.StatusSwitchingProtocols || !ok {
		defer res.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(res.Body, errorBytesMax))
		return nil, newAPIError(res, text)
	}
	if res.Header.Get("Sec-WebSocket-Accept") != acceptOf(key) {
		conn.Close()
		return nil, errors.New("opensandbox: the server did not accept the WebSocket handshake")
	}
	return &PTY{id: id, conn: conn, in: bufio.NewReader(conn), offset: since}, nil
}

func acceptOf(key string) string {
	sum := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // as above
	return base64.StdEncoding.EncodeToString(sum[:])
}

// OpenPTY makes a terminal session and connects to it.
func (s *Sandbox) OpenPTY(ctx context.Context, opts PTYOptions) (*PTY, error) {
	id, err := s.execd.CreatePTY(ctx, opts)
	if err != nil {
		return nil, err
	}
	return s.execd.AttachPTY(ctx, id, 0, false)
}

// ID returns the id of the session, for AttachPTY and DeletePTY.
func (p *PTY) ID() string { return p.id }

// Offset returns how many bytes the terminal has printed so far, for AttachPTY.
func (p *PTY) Offset() int64 { return p.offset - int64(len(p.rest)) }

// ExitCode returns the exit status of the program once Read has returned io.EOF.
func (p *PTY) ExitCode() (int, bool) {
	if p.exit == nil {
		return 0, false
	}
	return *p.exit, true
}

// Read returns output of the terminal.
func (p *PTY) Read(b []byte) (int, error) {
	for len(p.rest) == 0 {
		op, data, err := p.readFrame()
		if err != nil {
			return 0, err
		}
		if err := p.take(op, data); err != nil {
			return 0, err
		}
	}
	n := copy(b, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

func (p *PTY) take(op byte, data []byte) error {
	switch {
	case op == opPing:
		return p.writeFrame(opPong, data)
	case op == opClose:
		if p.exit != nil {
			return io.EOF
		}
		return ErrStreamEnded
	case op == opText:
		return p.message(data)
	case op == opBinary && len(data) > 0:
		p.output(data[0], data[1:])
	}
	return nil
}

func (p *PTY) output(channel byte, data []byte) {
	switch {
	case channel == channelReplay && len(data) >= 8:
		p.offset = int64(binary.BigEndian.Uint64(data))
		data = data[8:]
	case channel != channelStdout && channel != channelStderr:
		return
	}
	p.rest = data
	p.offset += int64(len(data))
}

func (p *PTY) message(data []byte) error {
	var m struct {
		Type     string `json:"type"`
		Error    string `json:"error"`
		Code     string `json:"code"`
		ExitCode int    `json:"exit_code"`
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return fmt.Errorf("opensandbox: terminal %s: %w", p.id, err)
	}
	switch m.Type {
	case "exit":
		p.exit = &m.ExitCode
	case "error":
		return &APIError{StatusCode: http.StatusOK, Response: ErrorResponse{m.Code, m.Error}}
	}
	return nil
}

func (p *PTY) readFrame() (byte, []byte, error) {
	var head [2]byte
	if _, err := io.ReadFull(p.in, head[:]); err != nil {
		return 0, nil, p.ended(err)
	}
	length := uint64(head[1] & 0x7f)
	var long [8]byte
	switch {
	case head[0]&0x80 == 0 || head[1]&0x80 != 0:
		return 0, nil, errors.New("opensandbox: a fragmented or masked WebSocket frame")
	case length == 126:
		if _, err := io.ReadFull(p.in, long[6:]); err != nil {
			return 0, nil, p.ended(err)
		}
		length = binary.BigEndian.Uint64(long[:])
	case length == 127:
		if _, err := io.ReadFull(p.in, long[:]); err != nil {
			return 0, nil, p.ended(err)
		}
		length = binary.BigEndian.Uint64(long[:])
	}
	if length > frameBytesMax {
		return 0, nil, fmt.Errorf("opensandbox: a WebSocket frame of %d bytes", length)
	}
	data := make([]byte, length)
	if _, err := io.ReadFull(p.in, data); err != nil {
		return 0, nil, p.ended(err)
	}
	return head[0] & 0x0f, data, nil
}

// ended tells the end of the program from a broken connection.
func (p *PTY) ended(err error) error {
	if p.exit != nil {
		return io.EOF
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrStreamEnded
	}
	return err
}

func (p *PTY) writeFrame(op byte, data []byte) error {
	frame := []byte{0x80 | op, 0x80}
	switch {
	case len(data) < 126:
		frame[1] |= byte(len(data))
	case len(data) < 1<<16:
		frame[1] |= 126
		frame = binary.BigEndian.AppendUint16(frame, uint16(len(data)))
	default:
		frame[1] |= 127
		frame = binary.BigEndian.AppendUint64(frame, uint64(len(data)))
	}
	var mask [4]byte
	if _, err := rand.Read(mask[:]); err != nil {
		return err
	}
	frame = append(frame, mask[:]...)
	for i, b := range data {
		frame = append(frame, b^mask[i%4])
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	_, err := p.conn.Write(frame)
	return err
}

// Write sends keys to the terminal.
func (p *PTY) Write(b []byte) (int, error) {
	const pieceMax = 32 << 10
	for sent := 0; sent < len(b); {
		end := sent + pieceMax
		if end > len(b) {
			end = len(b)
		}
		if err := p.writeFrame(opBinary, append([]byte{channelStdin}, b[sent:end]...)); err != nil {
			return sent, err
		}
		sent = end
	}
	return len(b), nil
}

func (p *PTY) command(message any) error {
	text, err := json.Marshal(message)
	if err != nil {
		return err
	}
	return p.writeFrame(opText, text)
}

// Resize tells the program the size of the terminal.
func (p *PTY) Resize(cols, rows int) error {
	return p.command(map[string]any{"type": "resize", "cols": cols, "rows": rows})
}

// Signal sends SIGINT, SIGTERM, SIGKILL, SIGQUIT or SIGHUP to the program.
func (p *PTY) Signal(name string) error {
	return p.command(map[string]any{"type": "signal", "signal": name})
}

// Close disconnects. The session goes on; DeletePTY ends it.
func (p *PTY) Close() error { return p.conn.Close() }
