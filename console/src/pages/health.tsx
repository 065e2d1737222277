import * as api from '../api';
import {bytes, duration} from '../format';
import {everywhere, features, mode, usePolled, useValue} from '../live';
import {parseMetrics, sum} from '../prom';
import {Card, Loading, PageHead, Problem, Tag} from '../ui';

interface Check {
  name: string;
  ok: boolean;
  text: string;
}

async function ask(path: string): Promise<{ok: boolean; text: string; ms: number}> {
  const began = performance.now();
  const answer = await fetch(path, {credentials: 'omit', cache: 'no-store', signal: AbortSignal.timeout(10000)});
  const text = await answer.text();
  return {ok: answer.ok, text, ms: performance.now() - began};
}

function message(text: string): string {
  try {
    const {message: m, status} = JSON.parse(text) as {message?: string; status?: string};
    return m ?? status ?? text;
  } catch {
    return text;
  }
}

interface Findings {
  checks: Check[];
  version: string;
  runtime: string;
  facts: [string, string][];
}

/** Without `figures`, what everybody may ask. */
async function examine(figures: boolean): Promise<Findings> {
  const [health, ready, version, metrics] = await Promise.all([
    ask('/health'),
    ask('/ready'),
    api.get<{version: string; runtime?: string}>('/version'),
    figures ? api.call('/metrics').then((a) => a.text()) : '',
  ]);
  const s = parseMetrics(metrics);
  const lag = sum(s, 'opensandbox_loop_lag_seconds');
  const queued = sum(s, 'opensandbox_jobs_queued');
  const failed = sum(s, 'opensandbox_gateway_requests_total', {outcome: 'failed'});
  const forwarded = sum(s, 'opensandbox_gateway_requests_total', {outcome: 'forwarded'});
  const wanted = sum(s, 'opensandbox_slots', {kind: 'wanted'});
  const readySlots = sum(s, 'opensandbox_slots', {kind: 'ready'});
  const healthText = message(health.text);
  return {
    version: version.version,
    runtime: version.runtime ?? '–',
    checks: [
      {name: 'The server answers', ok: health.ok && healthText === 'healthy', text: healthText},
      {name: 'Store and runtime answer', ok: ready.ok, text: `${message(ready.text)}, ${Math.round(ready.ms)} ms`},
      ...(figures ? [
        {name: 'Places are made ahead', ok: wanted === 0 || readySlots > 0, text: `${readySlots} of ${wanted} ready`},
        {name: 'The loop keeps up', ok: lag < 0.25, text: `longest turn ${(lag * 1000).toFixed(1)} ms`},
        {name: 'Workers keep up', ok: queued < 100, text: `${queued} jobs wait`},
        {name: 'Sandboxes can be reached', ok: failed === 0 || failed < forwarded / 10, text: `${failed} of ${forwarded} requests failed`},
      ] : []),
      {name: 'The connection is private', ok: isSecureContext, text: location.protocol === 'https:' ? 'TLS' : `${location.protocol.slice(0, -1)}, ${isSecureContext ? 'on this machine' : 'readable on the way: configure server.tls_cert'}`},
    ],
    facts: !figures ? [] : [
      ['Started', duration(Date.now() / 1000 - sum(s, 'opensandbox_start_time_seconds')) + ' ago'],
      ['Memory', bytes(sum(s, 'opensandbox_resident_memory_bytes'))],
      ['Open descriptors', String(sum(s, 'opensandbox_open_fds'))],
      ['Connections', String(sum(s, 'opensandbox_connections'))],
    ],
  };
}

export function HealthPage() {
  const all = useValue(everywhere);
  const {data, error} = usePolled(async () => (all === null ? null : examine(all)), 5000, [all]);
  const who = usePolled(() => api.get<Record<string, unknown>>('/v1/whoami').catch(() => null), 0, []);
  const has = useValue(features);
  const how = useValue(mode);
  return (
    <>
      <PageHead title="Settings and health" about="What a look at the server finds now." />
      <Problem error={error} />
      {!data ? !error && <Loading /> : (
        <div class="grid two">
          <Card title="Checks">
            <ul class="plain-list checks">
              {data.checks.map((c) => <li key={c.name} class="row spread"><span><Tag tone={c.ok ? 'good' : 'bad'}>{c.ok ? 'ok' : 'look'}</Tag> {c.name}</span><span class="about">{c.text}</span></li>)}
            </ul>
          </Card>
          <Card title="Server">
            <dl class="facts">
              <dt>Version</dt><dd>{data.version}</dd>
              <dt>Runtime</dt><dd>{data.runtime}</dd>
              {data.facts.map(([k, v]) => <><dt>{k}</dt><dd>{v}</dd></>)}
              <dt>Updates of this page</dt><dd>{how === 'events' ? 'by events' : 'by asking every few seconds'}</dd>
              <dt>Parts of the API</dt><dd>{Object.entries(has).filter(([, v]) => v).map(([k]) => <Tag key={k}>{k}</Tag>)}</dd>
            </dl>
          </Card>
          {who.data && <Card title="You"><dl class="facts">{Object.entries(who.data).map(([k, v]) => <><dt>{k}</dt><dd>{typeof v === 'object' ? JSON.stringify(v) : String(v)}</dd></>)}</dl></Card>}
          <Card title="Keyboard">
            <dl class="facts">
              <dt><kbd>/</kbd></dt><dd>Search sandboxes</dd>
              <dt><kbd>n</kbd></dt><dd>Create a sandbox</dd>
              <dt><kbd>Ctrl</kbd> <kbd>Enter</kbd></dt><dd>Run a cell of the notebook</dd>
              <dt><kbd>Ctrl</kbd> <kbd>S</kbd></dt><dd>Save the file that is open</dd>
              <dt><kbd>Esc</kbd></dt><dd>Close a dialog</dd>
            </dl>
            <p class="about"><a href="/docs" target="_blank" rel="noopener">The API's document</a> · <a href="/console/LICENSES.txt" target="_blank" rel="noopener">Licenses</a></p>
          </Card>
        </div>
      )}
    </>
  );
}
