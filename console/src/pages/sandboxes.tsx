import {useEffect, useMemo, useRef, useState} from 'preact/hooks';
import * as api from '../api';
import {problem, refresh, sandboxes, useCan, useValue} from '../live';
import type {Sandbox} from '../types';
import {Ago, attempt, Button, confirm, Empty, Id, Loading, PageHead, Problem, State, Tag, tell, Until, useWindow} from '../ui';
import {CreateDialog} from './create';

const ROW_PX = 44;
const AT_ONCE = 8; // requests of a bulk action
const STATES = ['Running', 'Paused', 'Pending', 'Failed', 'Terminated'];

/** Words that all must be somewhere in the sandbox; name=value looks into its metadata. */
export function fits(s: Sandbox, query: string): boolean {
  const text = [s.id, s.image?.uri, s.snapshotId, s.status.reason, s.entrypoint.join(' '),
    ...Object.entries(s.metadata ?? {}).map(([k, v]) => `${k}=${v}`)].join('\n').toLowerCase();
  return query.toLowerCase().split(/\s+/).every((word) => text.includes(word));
}

async function each(ids: string[], work: (id: string) => Promise<unknown>): Promise<number> {
  let failed = 0;
  const left = [...ids];
  await Promise.all(Array.from({length: AT_ONCE}, async () => {
    for (let id = left.pop(); id !== undefined; id = left.pop()) await work(id).catch(() => failed++);
  }));
  return failed;
}

export function SandboxesPage() {
  const list = useValue(sandboxes);
  const failed = useValue(problem);
  const can = useCan();
  const [query, setQuery] = useState('');
  const [state, setState] = useState('');
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const [creating, setCreating] = useState(false);
  const [busy, setBusy] = useState(false);
  const search = useRef<HTMLInputElement>(null);

  const shown = useMemo(() => (list ?? []).filter((s) => (!state || s.status.state === state) && fits(s, query)), [list, query, state]);
  const seen = useWindow(shown.length, ROW_PX);
  const picked = shown.filter((s) => chosen.has(s.id)).map((s) => s.id);

  useEffect(() => {
    const keys = (e: KeyboardEvent): void => {
      const typing = /^(input|textarea|select)$/i.test((e.target as HTMLElement).tagName);
      if (typing || e.ctrlKey || e.metaKey || e.altKey || document.querySelector('dialog[open]')) return;
      if (e.key === '/') {
        e.preventDefault();
        search.current?.focus();
      } else if (e.key === 'n' && can.write) {
        e.preventDefault();
        setCreating(true);
      }
    };
    addEventListener('keydown', keys);
    return () => removeEventListener('keydown', keys);
  }, [can.write]);

  const bulk = async (name: string, work: (id: string) => Promise<unknown>): Promise<void> => {
    setBusy(true);
    const bad = await each(picked, work);
    setBusy(false);
    setChosen(new Set());
    refresh();
    tell(bad ? `${name}: ${picked.length - bad} done, ${bad} failed.` : `${name}: ${picked.length} done.`, bad > 0);
  };
  const act = (verb: string) => (id: string): Promise<unknown> => api.send('POST', `/v1/sandboxes/${id}/${verb}`);
  const toggle = (id: string): void => setChosen((c) => {
    const next = new Set(c);
    if (!next.delete(id)) next.add(id);
    return next;
  });

  return (
    <>
      <PageHead title="Sandboxes" about={list ? `${list.length} in all, ${shown.length} shown` : undefined}>
        {can.write && <Button icon="plus" kind="primary" onClick={() => setCreating(true)} title="Create a sandbox (n)">Create</Button>}
      </PageHead>
      <Problem error={failed} />
      <div class="toolbar">
        <input ref={search} type="search" value={query} placeholder="Search id, image, name=value ( / )" aria-label="Search" onInput={(e) => setQuery(e.currentTarget.value)} />
        <select value={state} aria-label="State" onChange={(e) => setState(e.currentTarget.value)}>
          <option value="">Every state</option>
          {STATES.map((s) => <option key={s}>{s}</option>)}
        </select>
        {picked.length > 0 && can.write && (
          <div class="row bulk" role="group" aria-label="Chosen sandboxes">
            <span>{picked.length} chosen</span>
            <Button busy={busy} onClick={() => void bulk('Pause', act('pause'))}>Pause</Button>
            <Button busy={busy} onClick={() => void bulk('Resume', act('resume'))}>Resume</Button>
            <Button busy={busy} kind="danger" icon="trash" onClick={() => void confirm('Delete sandboxes', `${picked.length} sandboxes and everything in them will be gone.`, 'Delete').then((yes) => { if (yes) void bulk('Delete', (id) => api.send('DELETE', `/v1/sandboxes/${id}`)); })}>Delete</Button>
          </div>
        )}
      </div>
      {!list ? <Loading /> : shown.length === 0 ? (
        <Empty>{list.length ? 'No sandbox fits the filter.' : <>There is no sandbox. {can.write && <button type="button" class="linklike" onClick={() => setCreating(true)}>Create one</button>}</>}</Empty>
      ) : (
        <div class="vlist" ref={seen.ref} tabIndex={0} role="region" aria-label="List of sandboxes">
          <table>
            <thead>
              <tr>
                <th scope="col" class="pick"><input type="checkbox" aria-label="Choose all" checked={picked.length === shown.length} onChange={(e) => setChosen(e.currentTarget.checked ? new Set(shown.map((s) => s.id)) : new Set())} /></th>
                <th scope="col">State</th><th scope="col">Id</th><th scope="col">Made of</th><th scope="col">Metadata</th><th scope="col">Created</th><th scope="col">Ends</th>
                <th scope="col"><span class="hidden">Actions</span></th>
              </tr>
            </thead>
            <tbody>
              {seen.above > 0 && <tr aria-hidden="true"><td colSpan={8} style={{height: `${seen.above}px`, padding: 0}} /></tr>}
              {shown.slice(seen.from, seen.to).map((s) => <Row key={s.id} s={s} can={can.write} chosen={chosen.has(s.id)} toggle={toggle} />)}
              {seen.below > 0 && <tr aria-hidden="true"><td colSpan={8} style={{height: `${seen.below}px`, padding: 0}} /></tr>}
            </tbody>
          </table>
        </div>
      )}
      {creating && <CreateDialog onClose={() => setCreating(false)} />}
    </>
  );
}

function Row({s, can, chosen, toggle}: {s: Sandbox; can: boolean; chosen: boolean; toggle: (id: string) => void}) {
  const labels = Object.entries(s.metadata ?? {});
  return (
    <tr class={chosen ? 'chosen' : ''}>
      <td class="pick"><input type="checkbox" aria-label={`Choose ${s.id}`} checked={chosen} onChange={() => toggle(s.id)} /></td>
      <td><State value={s.status.state} /></td>
      <td><a href={`#/sandboxes/${s.id}`}><Id id={s.id} /></a></td>
      <td class="clip">{s.image?.uri ?? <>snapshot <Id id={s.snapshotId ?? ''} /></>}</td>
      <td class="clip">{labels.slice(0, 3).map(([k, v]) => <Tag key={k}>{k}={v}</Tag>)}{labels.length > 3 && ` +${labels.length - 3}`}</td>
      <td><Ago time={s.createdAt} /></td>
      <td><Until time={s.expiresAt} /></td>
      <td class="actions">{can && <div class="row end">
        <a class="button quiet" href={`#/sandboxes/${s.id}/terminal`} aria-label={`Terminal of ${s.id}`}>Terminal</a>
        <Button kind="quiet" icon="trash" aria-label={`Delete ${s.id}`} title="Delete" onClick={() => void remove(s.id)} />
      </div>}</td>
    </tr>
  );
}

export async function remove(id: string): Promise<boolean> {
  if (!(await confirm('Delete this sandbox', `${id} and everything in it will be gone.`, 'Delete'))) return false;
  const ok = await attempt(() => api.send('DELETE', `/v1/sandboxes/${id}`), 'The sandbox is deleted.');
  refresh();
  return ok;
}
