// What runs inside, and what listens: read from /proc by a small command, which every image can run.
import {useState} from 'preact/hooks';
import * as api from '../api';
import {bytes} from '../format';
import {usePolled} from '../live';
import {attempt, Button, Card, Empty, Loading, Problem, Table, TextField} from '../ui';

export interface Process {
  pid: number;
  parent: number;
  state: string;
  ticks: number;
  rss: number;
  command: string;
}

const PAGE_BYTES = 4096;
const LIST = `for d in /proc/[0-9]*; do s=$(cat $d/stat 2>/dev/null) || continue; c=$(tr '\\0\\n' '  ' <$d/cmdline 2>/dev/null); printf '%s\\t%s\\n' "$s" "$c"; done`;

/** Rows of /proc/PID/stat, a tab, and the command line. */
export function parseProcesses(text: string): Process[] {
  const out: Process[] = [];
  for (const line of text.split('\n')) {
    const [stat, command] = line.split('\t');
    const m = /^(\d+) \((.*)\) (\S) (.*)$/.exec(stat ?? '');
    if (!m) continue;
    const f = m[4]!.split(' ');
    out.push({pid: Number(m[1]), state: m[3]!, parent: Number(f[0]), ticks: Number(f[10]) + Number(f[11]), rss: Number(f[20]) * PAGE_BYTES, command: command?.trim() || `[${m[2]}]`});
  }
  return out.sort((a, b) => a.pid - b.pid);
}

export interface Listener {
  port: number;
  address: string;
}

/** Listening sockets in /proc/net/tcp and tcp6: state 0A. */
export function parseListeners(text: string): Listener[] {
  const found = new Map<number, Listener>();
  for (const line of text.split('\n')) {
    const m = /^\s*\d+: ([0-9A-F]+):([0-9A-F]{4}) [0-9A-F]+:[0-9A-F]{4} 0A /i.exec(line);
    if (!m) continue;
    const port = parseInt(m[2]!, 16);
    const any = /^0+$/.test(m[1]!);
    if (!found.has(port)) found.set(port, {port, address: any ? 'every address' : 'loopback'});
  }
  return [...found.values()].sort((a, b) => a.port - b.port);
}

const OWN_PORTS = new Set([api.EXECD_PORT, 44771]); // of execd; the second is how clients learn that code can run

export async function listeners(id: string): Promise<Listener[]> {
  const {stdout} = await api.run(id, 'cat /proc/net/tcp /proc/net/tcp6 2>/dev/null; true');
  return parseListeners(stdout).filter((l) => !OWN_PORTS.has(l.port));
}

export function Processes({id}: {id: string}) {
  const {data, error, again} = usePolled(async () => parseProcesses((await api.run(id, LIST)).stdout), 3000, [id]);
  const end = async (p: Process, signal: string): Promise<void> => {
    await attempt(async () => {
      const {status, stderr} = await api.run(id, `kill -${signal} ${p.pid}`);
      if (status !== 0) throw new Error(stderr.trim() || `kill ended with ${status}`);
    });
    again();
  };
  if (!data) return error ? <Problem error={error} /> : <Loading />;
  return (
    <>
      <Problem error={error} />
      <Table label="Processes" rows={data} keyOf={(p) => String(p.pid)} columns={[
        {name: 'Pid', number: true, cell: (p) => p.pid},
        {name: 'Parent', number: true, cell: (p) => p.parent},
        {name: 'State', cell: (p) => p.state},
        {name: 'CPU time', number: true, cell: (p) => `${(p.ticks / 100).toFixed(2)} s`},
        {name: 'Memory', number: true, cell: (p) => bytes(p.rss)},
        {name: 'Command', cell: (p) => <code class="clip wide" title={p.command}>{p.command}</code>},
      ]} actions={(p) => p.pid !== 1 && <><Button onClick={() => void end(p, 'TERM')} aria-label={`End process ${p.pid}`}>End</Button><Button kind="danger" onClick={() => void end(p, 'KILL')} aria-label={`Kill process ${p.pid}`}>Kill</Button></>} />
    </>
  );
}

interface Preview {
  path: string;
  expiresAt: string;
}

export function Ports({id}: {id: string}) {
  const {data, error} = usePolled(() => listeners(id), 4000, [id]);
  const [port, setPort] = useState('');
  const [shown, setShown] = useState<{port: number; path: string} | null>(null);
  const make = (n: number): Promise<Preview> => api.send<Preview>('POST', `/v1/sandboxes/${id}/previews/${n}`);
  const preview = (n: number): void => void attempt(async () => setShown({port: n, path: (await make(n)).path}));
  const open = (n: number): void => {
    void attempt(async () => {
      const {path} = await make(n);
      window.open(path, '_blank', 'noopener,noreferrer');
    });
  };
  return (
    <div class="stack">
      <Problem error={error} />
      {!data ? !error && <Loading /> : data.length === 0 ? <Empty icon="link">Nothing listens in this sandbox.</Empty>
        : <Table label="Ports that listen" rows={data} keyOf={(l) => String(l.port)} columns={[
            {name: 'Port', cell: (l) => l.port},
            {name: 'Listens on', cell: (l) => l.address},
          ]} actions={(l) => <><Button onClick={() => preview(l.port)}>Preview</Button><Button icon="external" onClick={() => open(l.port)}>Open</Button></>} />}
      <form class="row bottom" onSubmit={(e) => { e.preventDefault(); preview(Number(port)); }}>
        <TextField label="Another port" type="number" value={port} on={setPort} required placeholder="8000" />
        <Button type="submit">Preview</Button>
      </form>
      {shown && (
        <Card title={`Port ${shown.port}`} actions={<><Button icon="external" onClick={() => open(shown.port)}>Open</Button><Button icon="close" onClick={() => setShown(null)}>Close</Button></>}>
          <iframe class="preview" title={`Preview of port ${shown.port}`} src={shown.path} sandbox="allow-scripts allow-forms allow-modals allow-downloads" referrerpolicy="no-referrer" />
          <p class="about">The page has no access to this console: it runs in an origin of its own.</p>
        </Card>
      )}
    </div>
  );
}
