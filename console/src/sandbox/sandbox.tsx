// One sandbox: what it is, and the tabs of what can be done in it.
import {lazy} from '../lazy';
import {useEffect, useRef, useState} from 'preact/hooks';
import * as api from '../api';
import {Chart} from '../chart';
import {clock} from '../format';
import {features, refresh, useCan, usePolled, useValue, whenEvent} from '../live';
import {AuditTable} from '../pages/teams';
import {remove} from '../pages/sandboxes';
import {readEvents} from '../stream';
import type {Metrics, Sandbox} from '../types';
import {Ago, attempt, Button, Card, Dialog, Loading, PageHead, Problem, State, Tabs, Tag, TextField, Until} from '../ui';
import {Egress} from './egress';
import {Files} from './files';
import {Logs} from './logs';
import {Notebook} from './notebook';
import {Ports, Processes} from './inside';
import {SnapshotsTab} from './snapshots';

const Terminal = lazy(() => import('./terminal').then((m) => m.TerminalTab));
const Desktop = lazy(() => import('./desktop').then((m) => m.DesktopTab));

const TABS: [string, string][] = [
  ['summary', 'Summary'],
  ['terminal', 'Terminal'],
  ['files', 'Files'],
  ['notebook', 'Notebook'],
  ['logs', 'Logs'],
  ['processes', 'Processes'],
  ['ports', 'Ports'],
  ['desktop', 'Desktop'],
  ['egress', 'Egress'],
  ['snapshots', 'Snapshots'],
  ['audit', 'Audit'],
];
const NEEDS_WRITE = new Set(['terminal', 'files', 'notebook', 'processes', 'ports', 'desktop', 'egress']); // all go inside
const NEED_RUNNING = new Set(['terminal', 'files', 'notebook', 'processes', 'ports', 'desktop']);

export function SandboxPage({id, tab}: {id: string; tab: string}) {
  const {data, error, again} = usePolled((signal) => api.get<Sandbox>(`/v1/sandboxes/${encodeURIComponent(id)}`, {}, signal), 2000, [id]);
  const has = useValue(features);
  const can = useCan();
  const [renewing, setRenewing] = useState(false);
  useEffect(() => whenEvent((e) => { if (e.sandboxId === id) again(); }), [id]);
  if (!data) return error ? <><PageHead title="Sandbox" /><Problem error={error} /><p><a href="#/sandboxes">All sandboxes</a></p></> : <Loading />;
  const gone = error instanceof api.ApiError && error.status === 404;
  const state = data.status.state;
  const act = (verb: string, done: string): void => void attempt(() => api.send('POST', `/v1/sandboxes/${id}/${verb}`), done).then(() => { again(); refresh(); });
  const tabs = TABS.filter(([t]) => (t !== 'audit' || has['audit']) && (can.write || !NEEDS_WRITE.has(t)));
  return (
    <>
      <PageHead title={<><span class="mono">{data.metadata?.['name'] ?? id.slice(0, 8)}</span> <State value={gone ? 'Terminated' : state} /></>} about={<>{data.image?.uri ?? `snapshot ${data.snapshotId}`} · created <Ago time={data.createdAt} /> · ends <Until time={data.expiresAt} /></>}>
        {can.write && state === 'Running' && <Button onClick={() => act('pause', 'The sandbox is paused.')}>Pause</Button>}
        {can.write && state === 'Paused' && <Button onClick={() => act('resume', 'The sandbox runs again.')}>Resume</Button>}
        {can.write && data.expiresAt && <Button onClick={() => setRenewing(true)}>Renew</Button>}
        {can.write && <Button kind="danger" icon="trash" onClick={() => void remove(id).then((yes) => { if (yes) location.hash = '#/sandboxes'; })}>Delete</Button>}
      </PageHead>
      {gone && <Problem error="This sandbox is gone." />}
      {!gone && <Problem error={error} />}
      <Tabs tabs={tabs} at={tab} href={(t) => `#/sandboxes/${id}/${t}`} />
      {NEEDS_WRITE.has(tab) && !can.write
        ? <p class="about">Your key may only read.</p>
        : NEED_RUNNING.has(tab) && state !== 'Running'
        ? <p class="about">This needs a running sandbox; it is {state}.</p>
        : <>
            {tab === 'summary' && <Summary s={data} />}
            {tab === 'terminal' && <Terminal id={id} />}
            {tab === 'files' && <Files id={id} />}
            {tab === 'notebook' && <Notebook id={id} />}
            {tab === 'logs' && <Logs id={id} />}
            {tab === 'processes' && <Processes id={id} />}
            {tab === 'ports' && <Ports id={id} />}
            {tab === 'desktop' && <Desktop id={id} />}
            {tab === 'egress' && <Egress id={id} />}
            {tab === 'snapshots' && <SnapshotsTab sandbox={data} />}
            {tab === 'audit' && <AuditTable target={id} />}
          </>}
      {renewing && <RenewDialog id={id} onClose={() => { setRenewing(false); again(); }} />}
    </>
  );
}

function RenewDialog({id, onClose}: {id: string; onClose: () => void}) {
  const [minutes, setMinutes] = useState('60');
  const save = async (): Promise<void> => {
    const expiresAt = new Date(Date.now() + Number(minutes) * 60000).toISOString();
    if (await attempt(() => api.send('POST', `/v1/sandboxes/${id}/renew-expiration`, {expiresAt}), 'Its end is moved.')) onClose();
  };
  return (
    <Dialog title="Renew" onClose={onClose}>
      <form onSubmit={(e) => { e.preventDefault(); void save(); }}>
        <TextField label="Minutes from now" type="number" value={minutes} on={setMinutes} required />
        <footer class="row end"><Button onClick={onClose}>Cancel</Button><Button type="submit" kind="primary">Renew</Button></footer>
      </form>
    </Dialog>
  );
}

// --- summary: facts, what happened, how busy it is ---

const KEPT = 60;

function useMetrics(id: string, on: boolean): Metrics[] {
  const [points, set] = useState<Metrics[]>([]);
  const past = useRef<Metrics[]>([]);
  useEffect(() => {
    if (!on) return;
    const control = new AbortController();
    const follow = async (): Promise<void> => {
      while (!control.signal.aborted) {
        try {
          const answer = await api.call(`${api.inside(id)}/metrics/watch`, {signal: control.signal, patient: true});
          await readEvents<Metrics>(answer, (m) => {
            past.current = [...past.current, m].slice(-KEPT);
            set(past.current);
          });
        } catch {
          // it is paused, or the server restarts: once more
        }
        await new Promise((done) => setTimeout(done, 1500));
      }
    };
    void follow();
    return () => control.abort();
  }, [id, on]);
  return points;
}

interface TimelineRow {
  time: string;
  text: string;
}

/** States and their reasons; what the network did is on the page of the policy. Lines such as "2026-07-01T09:30:00.125000Z Running CONTAINER_RUNNING: the sandbox runs". */
function parseEvents(content: string): TimelineRow[] {
  return content.split('\n').filter((line) => line && !/^\S+\s+egress\./.test(line)).map((line) => {
    const m = /^\[?(\d{4}-\d\d-\d\dT[^\s\]]+)\]?\s+(.*)$/.exec(line);
    return m ? {time: m[1]!, text: m[2]!} : {time: '', text: line};
  });
}

function Summary({s}: {s: Sandbox}) {
  const can = useCan();
  const points = useMetrics(s.id, s.status.state === 'Running' && can.write);
  const events = usePolled(() => api.get<{content?: string}>(`/v1/sandboxes/${s.id}/diagnostics/events`, {scope: 'lifecycle', limit: 50}), 5000, [s.id, s.status.state]);
  const labels = Object.entries(s.metadata ?? {});
  const last = points[points.length - 1];
  return (
    <div class="grid two">
      <Card title="Facts">
        <dl class="facts">
          <dt>Id</dt><dd><code class="break">{s.id}</code></dd>
          <dt>Made of</dt><dd>{s.image?.uri ?? <a href="#/snapshots">snapshot {s.snapshotId}</a>}</dd>
          <dt>Command</dt><dd><code class="break">{s.entrypoint.join(' ')}</code></dd>
          <dt>Created</dt><dd>{clock(s.createdAt)}</dd>
          <dt>Ends</dt><dd>{s.expiresAt ? clock(s.expiresAt) : 'when it is deleted'}</dd>
          <dt>Metadata</dt><dd>{labels.length ? labels.map(([k, v]) => <Tag key={k}>{k}={v}</Tag>) : '–'}</dd>
          {s.status.message && <><dt>State</dt><dd>{s.status.reason}: {s.status.message}</dd></>}
        </dl>
      </Card>
      <Card title="What happened">
        <Problem error={events.error} />
        <ol class="timeline" tabIndex={0} aria-label="What happened">
          {parseEvents(events.data?.content ?? '').reverse().map((e, i) => <li key={i}><span class="about">{e.time ? clock(e.time) : ''}</span><span>{e.text}</span></li>)}
        </ol>
      </Card>
      {can.write && <Card><Chart title="CPU" lines={[{name: 'used', points: points.map((p) => p.cpu_used_pct)}]} max={100} format={(v) => `${v.toFixed(v < 10 ? 1 : 0)} %`} slots={KEPT} /></Card>}
      {can.write && <Card><Chart title="Memory" lines={[{name: 'used', points: points.map((p) => p.mem_used_mib), tone: 1}]} max={last?.mem_total_mib} format={(v) => `${v < 10 ? v.toFixed(1) : Math.round(v)} MiB`} slots={KEPT} /></Card>}
    </div>
  );
}
