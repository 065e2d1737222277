import {useRef} from 'preact/hooks';
import * as api from '../api';
import {Chart, Meter} from '../chart';
import {amounts, bytes, millis} from '../format';
import {everywhere, problem, sandboxes, usePolled, useValue} from '../live';
import {type Bucket, buckets, minus, parseMetrics, quantile, type Sample, sum} from '../prom';
import type {Sandbox, Tenant} from '../types';
import {Ago, Card, Empty, Id, Loading, PageHead, Problem, State} from '../ui';

const EVERY_MS = 2000;
const KEPT = 60;
const CREATE = 'opensandbox_sandbox_create_duration_seconds';
const HTTP = 'opensandbox_http_request_duration_seconds';

interface Moment {
  at: number;
  samples: Sample[];
  creates: number;
  createRows: Bucket[];
  httpRows: Bucket[];
}

interface Point {
  running: number;
  createsPerS: number | null;
  createP50: number | null;
  createP99: number | null;
  httpP50: number | null;
  httpP99: number | null;
  requestsPerS: number | null;
  memory: number;
}

const total = (rows: Bucket[]): number => rows[rows.length - 1]?.count ?? 0;

function point(now: Moment, before: Moment | null): Point {
  const s = before ? (now.at - before.at) / 1000 : 0;
  const created = before ? minus(now.createRows, before.createRows) : [];
  const asked = before ? minus(now.httpRows, before.httpRows) : [];
  return {
    running: sum(now.samples, 'opensandbox_sandboxes', {state: 'Running'}),
    createsPerS: before ? Math.max(0, now.creates - before.creates) / s : null,
    createP50: quantile(created, 0.5),
    createP99: quantile(created, 0.99),
    httpP50: quantile(asked, 0.5),
    httpP99: quantile(asked, 0.99),
    requestsPerS: before ? Math.max(0, total(asked)) / s : null,
    memory: sum(now.samples, 'opensandbox_resident_memory_bytes'),
  };
}

/** Figures of the server are for those who see all tenants: to others it does not tell them. */
export function Overview() {
  const all = useValue(everywhere);
  const failed = useValue(problem);
  if (all === null) return failed ? <><PageHead title="Overview" /><Problem error={failed} /></> : <Loading />;
  return all ? <ServerOverview /> : <TenantOverview />;
}

function ServerOverview() {
  const past = useRef<{last: Moment | null; points: Point[]}>({last: null, points: []});
  const {data, error} = usePolled(async (signal) => {
    const text = await (await api.call('/metrics', {signal})).text();
    const samples = parseMetrics(text);
    const createRows = buckets(samples, CREATE);
    // Streams last as long as their client: they say nothing about how fast the server is.
    const httpRows = buckets(samples, HTTP, (l) => !/proxy|preview|events|pull/.test(l['route'] ?? ''));
    const now: Moment = {at: Date.now(), samples, creates: total(createRows), createRows, httpRows};
    const p = past.current;
    p.points = [...p.points, point(now, p.last)].slice(-KEPT);
    p.last = now;
    return {moment: now, points: p.points};
  }, EVERY_MS, []);
  const list = useValue(sandboxes);
  if (!data) return error ? <><PageHead title="Overview" /><Problem error={error} /></> : <Loading />;
  const {moment, points} = data;
  const now = points[points.length - 1]!;
  const live = sum(moment.samples, 'opensandbox_slots', {kind: 'live'});
  const ready = sum(moment.samples, 'opensandbox_slots', {kind: 'ready'});
  const wanted = sum(moment.samples, 'opensandbox_slots', {kind: 'wanted'});
  const series = (pick: (p: Point) => number | null): (number | null)[] => points.map(pick);
  return (
    <>
      <PageHead title="Overview" about="What this server does now; the charts show the last two minutes." />
      <Problem error={error} />
      <div class="tiles">
        <Counts list={list} />
        <Tile name="Creates" value={`${(now.createsPerS ?? 0).toFixed(1)}/s`} about={`${moment.creates} since the start`} />
        <Tile name="Create p50" value={millis(quantile(moment.createRows, 0.5))} about={`p99 ${millis(quantile(moment.createRows, 0.99))}`} />
        <Tile name="Request p50" value={millis(quantile(moment.httpRows, 0.5))} about={`p99 ${millis(quantile(moment.httpRows, 0.99))}`} />
      </div>
      <div class="grid two">
        <Card><Chart title="Sandboxes" lines={[{name: 'running, with those of pools', points: series((p) => p.running)}]} format={(v) => String(Math.round(v * 10) / 10)} slots={KEPT} /></Card>
        <Card><Chart title="Creates per second" lines={[{name: 'creates', points: series((p) => p.createsPerS)}]} format={(v) => v.toFixed(1)} slots={KEPT} /></Card>
        <Card><Chart title="Create latency" lines={[{name: 'p50', points: series((p) => p.createP50)}, {name: 'p99', points: series((p) => p.createP99)}]} format={millis} slots={KEPT} /></Card>
        <Card><Chart title="Request latency" lines={[{name: 'p50', points: series((p) => p.httpP50)}, {name: 'p99', points: series((p) => p.httpP99)}]} format={millis} slots={KEPT} /></Card>
        <Card title="Capacity">
          <Meter label="Places made ready" value={ready} max={Math.max(wanted, ready)} text={`${ready} of ${wanted}`} fullIsGood />
          <Meter label="Places in use" value={live} max={live + ready} text={String(live)} fullIsGood />
          <Meter label="Workers busy" value={sum(moment.samples, 'opensandbox_jobs_running')} max={Math.max(1, sum(moment.samples, 'opensandbox_jobs_running') + 4)} text={`${sum(moment.samples, 'opensandbox_jobs_running')} running, ${sum(moment.samples, 'opensandbox_jobs_queued')} waiting`} />
          <dl class="facts">
            <dt>Memory of the server</dt><dd>{bytes(now.memory)}</dd>
            <dt>Requests</dt><dd>{(now.requestsPerS ?? 0).toFixed(1)}/s</dd>
            <dt>Connections</dt><dd>{sum(moment.samples, 'opensandbox_connections')}</dd>
          </dl>
        </Card>
        <Newest list={list} />
      </div>
    </>
  );
}

function TenantOverview() {
  const {data, error} = usePolled(() => api.get<{items: Tenant[]}>('/v1/tenants'), EVERY_MS, []);
  const past = useRef<(number | null)[]>([]);
  const list = useValue(sandboxes);
  const points = usePolled(async () => {
    const now = sandboxes.get();
    past.current = [...past.current, now && count(now, 'Running')].slice(-KEPT);
    return past.current;
  }, EVERY_MS, []).data;
  return (
    <>
      <PageHead title="Overview" about="What your tenant has now; the chart shows the last two minutes." />
      <Problem error={error} />
      <div class="tiles"><Counts list={list} /></div>
      <div class="grid two">
        <Card><Chart title="Sandboxes" lines={[{name: 'running', points: points ?? []}]} format={(v) => String(Math.round(v * 10) / 10)} slots={KEPT} /></Card>
        {data?.items.map((t) => (
          <Card key={t.name} title={`Quota of ${t.name}`}>
            {amounts(t).map((a) => <Meter key={a.name} label={a.name} value={a.limit === null ? 0 : a.used} max={a.limit ?? 1} text={a.text} />)}
          </Card>
        ))}
        <Newest list={list} />
      </div>
    </>
  );
}

const count = (list: Sandbox[] | null, state: string): number => (list ?? []).filter((s) => s.status.state === state).length;

function Counts({list}: {list: Sandbox[] | null}) {
  return (
    <>
      <Tile name="Running" value={String(count(list, 'Running'))} about={`${list?.length ?? 0} in all`} href="#/sandboxes" />
      <Tile name="Paused" value={String(count(list, 'Paused'))} />
      <Tile name="Failed" value={String(count(list, 'Failed'))} bad={count(list, 'Failed') > 0} />
    </>
  );
}

function Newest({list}: {list: Sandbox[] | null}) {
  return (
    <Card title="Newest sandboxes" actions={<a href="#/sandboxes">All</a>}>
      {list?.length ? (
        <ul class="plain-list">
          {list.slice(0, 7).map((s) => (
            <li key={s.id} class="row spread"><a href={`#/sandboxes/${s.id}`}><Id id={s.id} /> {s.image?.uri ?? s.snapshotId}</a><span class="row"><Ago time={s.createdAt} /><State value={s.status.state} /></span></li>
          ))}
        </ul>
      ) : <Empty>No sandbox yet. <a href="#/sandboxes">Create one</a></Empty>}
    </Card>
  );
}

function Tile({name, value, about, href, bad}: {name: string; value: string; about?: string; href?: string; bad?: boolean}) {
  const inner = <><span class="tile-name">{name}</span><strong>{value}</strong><span class="tile-about">{about ?? '\u00a0'}</span></>;
  return href ? <a class="tile" href={href}>{inner}</a> : <div class={bad ? 'tile bad' : 'tile'}>{inner}</div>;
}
