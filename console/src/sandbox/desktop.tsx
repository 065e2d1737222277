// The desktop: noVNC. A VNC server speaks plain TCP, so the way there is a PTY session of three pipes
// whose command joins its input and output to the port.
import RFB, {type Channel} from '@novnc/novnc';
import {useEffect, useRef, useState} from 'preact/hooks';
import * as api from '../api';
import {usePolled} from '../live';
import {Button, Empty, Loading, Problem, SelectField, TextField} from '../ui';
import {listeners} from './inside';

const isVnc = (port: number): boolean => port >= 5900 && port <= 5999;

/** Joins its input and output to a port of loopback, with what the image has. */
export function joinCommand(port: number): string {
  const python = `import socket,sys,threading,os
s=socket.create_connection(("127.0.0.1",${port}))
def up():
    while True:
        b=os.read(0,65536)
        if not b: break
        s.sendall(b)
    os._exit(0)
threading.Thread(target=up,daemon=True).start()
while True:
    b=s.recv(65536)
    if not b: os._exit(0)
    while b: b=b[os.write(1,b):]`;
  return `if command -v python3 >/dev/null; then exec python3 -c ${api.quote(python)}; elif command -v socat >/dev/null; then exec socat - TCP:127.0.0.1:${port}; elif command -v nc >/dev/null; then exec nc 127.0.0.1 ${port}; else exec bash -c 'exec 3<>/dev/tcp/127.0.0.1/${port}; cat <&3 & exec cat >&3'; fi`;
}

/** The WebSocket of a PTY with pipes, as a channel of bytes. */
class PipeChannel implements Channel {
  binaryType = 'arraybuffer';
  readyState = 'connecting';
  protocol = '';
  onopen: Channel['onopen'] = null;
  onmessage: Channel['onmessage'] = null;
  onclose: Channel['onclose'] = null;
  onerror: Channel['onerror'] = null;
  complaint = '';

  constructor(private ws: WebSocket) {
    ws.binaryType = 'arraybuffer';
    ws.onmessage = (e: MessageEvent<string | ArrayBuffer>) => this.take(e.data);
    ws.onclose = () => this.end();
  }

  private take(data: string | ArrayBuffer): void {
    if (typeof data === 'string') {
      const {type} = JSON.parse(data) as {type: string};
      if (type === 'connected') {
        this.readyState = 'open';
        this.onopen?.({});
      } else if (type === 'exit') this.end();
      return;
    }
    const bytes = new Uint8Array(data);
    const body = bytes[0] === 3 ? bytes.slice(9) : bytes.slice(1);
    if (bytes[0] === 2) this.complaint += new TextDecoder().decode(body);
    else this.onmessage?.({data: body.buffer});
  }

  private end(): void {
    if (this.readyState === 'closed') return;
    this.readyState = 'closed';
    this.onclose?.({code: 1000, reason: this.complaint});
  }

  send(data: ArrayBuffer | ArrayBufferView): void {
    const body = ArrayBuffer.isView(data) ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength) : new Uint8Array(data);
    const frame = new Uint8Array(body.length + 1);
    frame.set(body, 1);
    this.ws.send(frame);
  }

  close(): void {
    this.ws.close();
  }
}

export function DesktopTab({id}: {id: string}) {
  const ports = usePolled(async () => (await listeners(id)).map((l) => l.port).filter(isVnc), 5000, [id]);
  const [port, setPort] = useState('');
  const [on, setOn] = useState(0);
  const [phase, setPhase] = useState('');
  const [asks, setAsks] = useState<RFB | null>(null);
  const [password, setPassword] = useState('');
  const box = useRef<HTMLDivElement>(null);
  const screen = useRef<RFB | null>(null);
  const chosen = Number(port || ports.data?.[0] || 0);

  useEffect(() => {
    if (!on || !box.current) return;
    let over = false;
    let pty = '';
    const begin = async (): Promise<void> => {
      setPhase('Connecting');
      const made = await api.send<{session_id: string}>('POST', `${api.inside(id)}/pty`, {command: joinCommand(on)});
      pty = made.session_id;
      const ws = await api.socket(id, `/pty/${pty}/ws?pty=0`);
      if (over) return ws.close();
      const rfb = new RFB(box.current!, new PipeChannel(ws), {shared: true});
      rfb.scaleViewport = true;
      rfb.background = 'transparent';
      rfb.addEventListener('connect', () => { setPhase('Connected'); rfb.focus(); });
      rfb.addEventListener('disconnect', () => { setPhase('The connection has ended'); setOn(0); });
      rfb.addEventListener('credentialsrequired', () => setAsks(rfb));
      screen.current = rfb;
    };
    begin().catch((e: Error) => setPhase(e.message));
    return () => {
      over = true;
      screen.current?.disconnect();
      screen.current = null;
      if (pty) void api.send('DELETE', `${api.inside(id)}/pty/${pty}`).catch(() => undefined);
    };
  }, [id, on]);

  if (!ports.data) return ports.error ? <Problem error={ports.error} /> : <Loading />;
  if (ports.data.length === 0 && !on) return <Empty icon="overview">No VNC server listens in this sandbox (ports 5900 to 5999). Start one, such as Xvnc, and this page shows its screen.</Empty>;
  return (
    <div class="stack">
      <div class="row bottom">
        {ports.data.length > 1 && <SelectField label="Port" value={port} on={setPort} options={ports.data.map((p) => [String(p), String(p)])} />}
        {on ? <Button icon="stop" onClick={() => setOn(0)}>Disconnect</Button> : <Button kind="primary" icon="play" onClick={() => setOn(chosen)}>Connect to port {chosen}</Button>}
        {on > 0 && <Button onClick={() => screen.current?.sendCtrlAltDel()}>Ctrl Alt Del</Button>}
        <span class="about" role="status">{phase}</span>
      </div>
      {asks && (
        <form class="row bottom" onSubmit={(e) => { e.preventDefault(); asks.sendCredentials({password}); setAsks(null); }}>
          <TextField label="Password of the VNC server" type="password" value={password} on={setPassword} />
          <Button type="submit" kind="primary">Log in</Button>
        </form>
      )}
      <div class="desktop" ref={box} />
    </div>
  );
}
