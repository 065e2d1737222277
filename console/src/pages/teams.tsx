// Keys, tenants and the audit record: pages for servers that have them.
import {useState} from 'preact/hooks';
import * as api from '../api';
import {amounts, clock} from '../format';
import {useCan, usePolled} from '../live';
import type {Tenant} from '../types';
import {Ago, attempt, Button, confirm, Dialog, Empty, Loading, PageHead, Problem, SelectField, Table, Tag, TextField, Until} from '../ui';

interface Key {
  id: string;
  name: string;
  role: string;
  tenant?: string;
  sandboxId?: string;
  createdAt: string;
  expiresAt?: string;
  lastUsedAt?: string;
  builtin: boolean;
  key?: string;
}

function Secret({made, onClose}: {made: Key; onClose: () => void}) {
  const [copied, setCopied] = useState(false);
  return (
    <Dialog title={`Key ${made.name}`} onClose={onClose}>
      <p>This is the key. It is shown this once.</p>
      <pre class="secret" tabIndex={0}>{made.key}</pre>
      <footer class="row end">
        <Button onClick={() => void navigator.clipboard?.writeText(made.key ?? '').then(() => setCopied(true))}>{copied ? 'Copied' : 'Copy'}</Button>
        <Button kind="primary" onClick={onClose}>Done</Button>
      </footer>
    </Dialog>
  );
}

function KeyDialog({onClose, onMade}: {onClose: () => void; onMade: (k: Key) => void}) {
  const [name, setName] = useState('');
  const [role, setRole] = useState('operator');
  const [tenant, setTenant] = useState('');
  const [sandboxId, setSandboxId] = useState('');
  const [days, setDays] = useState('90');
  const [error, setError] = useState<string | null>(null);
  const make = async (): Promise<void> => {
    try {
      onMade(await api.send<Key>('POST', '/v1/keys', {
        name: name.trim(),
        role,
        ...(tenant.trim() ? {tenant: tenant.trim()} : {}),
        ...(role === 'sandbox' ? {sandboxId: sandboxId.trim()} : {}),
        ...(days ? {expiresAt: new Date(Date.now() + Number(days) * 86400000).toISOString()} : {}),
      }));
    } catch (e) {
      setError((e as Error).message);
    }
  };
  return (
    <Dialog title="Make a key" onClose={onClose}>
      <form onSubmit={(e) => { e.preventDefault(); void make(); }}>
        <TextField label="Name" value={name} on={setName} required />
        <SelectField label="Role" value={role} on={setRole} options={[['read_only', 'Read only'], ['operator', 'Operator'], ['admin', 'Admin'], ['sandbox', 'One sandbox']]} />
        {role === 'sandbox' && <TextField label="Sandbox id" value={sandboxId} on={setSandboxId} required mono />}
        <TextField label="Tenant" value={tenant} on={setTenant} hint="Empty: as much as your own key sees." />
        <SelectField label="Valid for" value={days} on={setDays} options={[['1', '1 day'], ['30', '30 days'], ['90', '90 days'], ['365', '1 year'], ['', 'Until it is revoked']]} />
        <Problem error={error} />
        <footer class="row end"><Button onClick={onClose}>Cancel</Button><Button type="submit" kind="primary">Make</Button></footer>
      </form>
    </Dialog>
  );
}

export function KeysPage() {
  const {data, error, again} = usePolled(() => api.get<{items: Key[]}>('/v1/keys'), 10000, []);
  const can = useCan();
  const [making, setMaking] = useState(false);
  const [made, setMade] = useState<Key | null>(null);
  const revoke = async (k: Key): Promise<void> => {
    if (await confirm('Revoke this key', `${k.name} opens nothing any more.`, 'Revoke'))
      if (await attempt(() => api.send('DELETE', `/v1/keys/${k.id}`), 'The key is revoked.')) again();
  };
  const rotate = (k: Key): Promise<boolean> => attempt(async () => {
    setMade(await api.send<Key>('POST', `/v1/keys/${k.id}/rotate`, {graceSeconds: 3600}));
    again();
  });
  return (
    <>
      <PageHead title="Keys" about="Who may call this server, and with which role.">{can.admin && <Button icon="plus" kind="primary" onClick={() => setMaking(true)}>Make a key</Button>}</PageHead>
      <Problem error={error} />
      {!data ? !error && <Loading /> : <Table label="Keys" rows={data.items} keyOf={(k) => k.id} columns={[
        {name: 'Name', cell: (k) => <>{k.name} {k.builtin && <Tag>of the configuration</Tag>}</>},
        {name: 'Role', cell: (k) => <Tag tone={k.role === 'admin' ? 'held' : ''}>{k.role}</Tag>},
        {name: 'Tenant', cell: (k) => k.tenant ?? 'all'},
        {name: 'Made', cell: (k) => <Ago time={k.createdAt} />},
        {name: 'Last used', cell: (k) => <Ago time={k.lastUsedAt} />},
        {name: 'Ends', cell: (k) => <Until time={k.expiresAt} />},
      ]} actions={(k) => !k.builtin && <><Button onClick={() => void rotate(k)} title="The old one works for one more hour">Rotate</Button><Button kind="quiet" icon="trash" aria-label={`Revoke ${k.name}`} onClick={() => void revoke(k)} /></>} />}
      {making && <KeyDialog onClose={() => setMaking(false)} onMade={(k) => { setMaking(false); setMade(k); again(); }} />}
      {made && <Secret made={made} onClose={() => setMade(null)} />}
    </>
  );
}

const AMOUNTS = ['Sandboxes', 'CPU', 'Memory', 'Disk'];
const QUOTAS: [string, string, boolean][] = [
  ['sandboxes', 'Sandboxes', true],
  ['cpu', 'CPU', false],
  ['memory', 'Memory', false],
  ['disk', 'Disk', false],
  ['createsPerMinute', 'Creates per minute', true],
  ['requestsPerSecond', 'Requests per second', true],
];

function TenantDialog({tenant, onClose, onDone}: {tenant: Tenant | null; onClose: () => void; onDone: () => void}) {
  const [name, setName] = useState(tenant?.name ?? '');
  const [quota, setQuota] = useState<Record<string, string>>(Object.fromEntries(QUOTAS.map(([k]) => [k, String(tenant?.quota[k] ?? '')])));
  const [error, setError] = useState<string | null>(null);
  const save = async (): Promise<void> => {
    const given = Object.fromEntries(QUOTAS.map(([k, , number]) => [k, !quota[k] ? null : number ? Number(quota[k]) : quota[k]]));
    try {
      if (tenant) await api.send('PATCH', `/v1/tenants/${encodeURIComponent(tenant.name)}`, {quota: given});
      else await api.send('POST', '/v1/tenants', {name: name.trim(), quota: Object.fromEntries(Object.entries(given).filter(([, v]) => v !== null))});
      onDone();
      onClose();
    } catch (e) {
      setError((e as Error).message);
    }
  };
  return (
    <Dialog title={tenant ? `Quota of ${tenant.name}` : 'Create a tenant'} onClose={onClose}>
      <form onSubmit={(e) => { e.preventDefault(); void save(); }}>
        {!tenant && <TextField label="Name" value={name} on={setName} required />}
        <div class="grid two tight">{QUOTAS.map(([k, label, number]) => <TextField key={k} label={label} type={number ? 'number' : 'text'} value={quota[k] ?? ''} on={(v) => setQuota({...quota, [k]: v})} placeholder="no limit" />)}</div>
        <Problem error={error} />
        <footer class="row end"><Button onClick={onClose}>Cancel</Button><Button type="submit" kind="primary">Save</Button></footer>
      </form>
    </Dialog>
  );
}

export function TenantsPage() {
  const {data, error, again} = usePolled(() => api.get<{items: Tenant[]}>('/v1/tenants'), 10000, []);
  const [open, setOpen] = useState<Tenant | 'new' | null>(null);
  const can = useCan();
  const remove = async (t: Tenant): Promise<void> => {
    if (await confirm('Delete this tenant', `${t.name} must have nothing left.`, 'Delete'))
      if (await attempt(() => api.send('DELETE', `/v1/tenants/${encodeURIComponent(t.name)}`), 'The tenant is deleted.')) again();
  };
  return (
    <>
      <PageHead title="Tenants" about="Owners of sandboxes, with quotas.">{can.all && <Button icon="plus" kind="primary" onClick={() => setOpen('new')}>Create a tenant</Button>}</PageHead>
      <Problem error={error} />
      {!data ? !error && <Loading /> : <Table label="Tenants" rows={data.items} keyOf={(t) => t.name} columns={[
        {name: 'Name', cell: (t) => t.name},
        ...AMOUNTS.map((name, i) => ({name, cell: (t: Tenant) => amounts(t)[i]?.text})),
        {name: 'Made', cell: (t) => <Ago time={t.createdAt} />},
      ]} actions={(t) => can.all && <><Button onClick={() => setOpen(t)}>Quota</Button>{t.name !== 'default' && <Button kind="quiet" icon="trash" aria-label={`Delete tenant ${t.name}`} onClick={() => void remove(t)} />}</>} />}
      {open && <TenantDialog tenant={open === 'new' ? null : open} onClose={() => setOpen(null)} onDone={again} />}
    </>
  );
}

interface Entry {
  seq: number;
  time: string;
  principal: string;
  tenant: string;
  role: string;
  user?: string;
  requestId: string;
  method: string;
  route: string;
  target: string;
  status: number;
  outcome: string;
  durationUs?: number;
}

/** EGRESS: what egress control decided. */
const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'EGRESS'];

/** Entries of the audit record, the newest first; of one sandbox, with `target`. */
export function AuditTable({target}: {target?: string}) {
  const [principal, setPrincipal] = useState('');
  const [outcome, setOutcome] = useState('');
  const [method, setMethod] = useState('');
  const [before, setBefore] = useState<number | undefined>(undefined);
  const {data, error} = usePolled(
    () => api.get<{items: Entry[]; next?: number}>('/v1/audit', {limit: 100, before, target, principal: principal.trim() || undefined, outcome: outcome || undefined, method: method || undefined}),
    before ? 0 : 5000,
    [before, principal, outcome, method, target],
  );
  return (
    <>
      <div class="toolbar">
        <input type="search" aria-label="Principal" placeholder="Principal, such as key:0123456789ab" value={principal} onInput={(e) => { setBefore(undefined); setPrincipal(e.currentTarget.value); }} />
        <select aria-label="Outcome" value={outcome} onChange={(e) => { setBefore(undefined); setOutcome(e.currentTarget.value); }}>
          <option value="">Every outcome</option><option value="success">Success</option><option value="refused">Refused</option><option value="failed">Failed</option>
        </select>
        <select aria-label="Method" value={method} onChange={(e) => { setBefore(undefined); setMethod(e.currentTarget.value); }}>
          <option value="">Every method</option>
          {METHODS.map((m) => <option key={m}>{m}</option>)}
        </select>
      </div>
      <Problem error={error} />
      {!data ? !error && <Loading /> : data.items.length === 0 ? <Empty icon="list">No entry fits.</Empty> : <Table label="Audit record" rows={data.items} keyOf={(e) => String(e.seq)} columns={[
        {name: 'No.', number: true, cell: (e) => e.seq},
        {name: 'Time', cell: (e) => <span class="nowrap">{clock(e.time)}</span>},
        {name: 'Principal', cell: (e) => <>{e.user ?? e.principal} <span class="about">{e.role}</span></>},
        {name: 'Outcome', cell: (e) => <Tag tone={e.outcome === 'success' ? 'good' : e.outcome === 'refused' ? 'held' : 'bad'}>{e.outcome} {e.status || ''}</Tag>},
        ...(target ? [] : [{name: 'Tenant', cell: (e: Entry) => e.tenant}]),
        {name: 'Request', cell: (e) => <div class="request"><code>{e.method}</code> {e.route}{e.target && e.target !== target && <><br /><code class="about">{e.target}</code></>}</div>},
      ]} />}
      <div class="row">{before && <Button onClick={() => setBefore(undefined)}>Newest</Button>}{data?.next && <Button onClick={() => setBefore(data.next)}>Older</Button>}</div>
    </>
  );
}

export function AuditPage() {
  return <><PageHead title="Audit" about="What was asked of the server. Each entry holds the hash of the one before; osb audit verify checks the chain." /><AuditTable /></>;
}
