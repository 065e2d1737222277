// What a sandbox may talk to: the policy in force, an editor, and what was refused.
import {useEffect, useState} from 'preact/hooks';
import * as api from '../api';
import {clock} from '../format';
import {usePolled} from '../live';
import type {Policy, Rule} from '../types';
import {attempt, Button, Card, Empty, IconButton, Loading, Problem, SelectField, Tag} from '../ui';

interface Status {
  mode: string;
  enforcementMode?: string;
  reason?: string;
  policy?: Policy;
}

export interface Denied {
  time: string;
  target: string;
  why: string;
}

/** The events of what was denied: a time, "egress.deny", a name or address, and why. */
export function parseDenied(content: string): Denied[] {
  return [...content.matchAll(/^(\S+)\s+egress\.deny\s+(\S+)\s+(.*)$/gm)].map(([, time, target, why]) => ({time: time!, target: target!, why: why!}));
}

const SHOWN_MAX = 200;

const portsText = (r: Rule): string => (r.ports ?? []).join(', ');

export function Egress({id}: {id: string}) {
  const {data, error, again} = usePolled(() => api.get<Status>(`${api.inside(id, api.EGRESS_PORT)}/policy`), 0, [id]);
  const [base, setBase] = useState('deny');
  const [rules, setRules] = useState<Rule[]>([]);
  const [changed, setChanged] = useState(false);
  useEffect(() => {
    if (!data || changed) return;
    setBase(data.policy?.defaultAction ?? (data.mode === 'allow_all' ? 'allow' : 'deny'));
    setRules(data.policy?.egress ?? []);
  }, [data]);
  const edit = (next: Rule[]): void => {
    setRules(next);
    setChanged(true);
  };
  const set = (i: number, part: Partial<Rule>): void => edit(rules.map((r, n) => (n === i ? {...r, ...part} : r)));
  const save = async (): Promise<void> => {
    const egress = rules.filter((r) => r.target.trim()).map((r) => ({...r, target: r.target.trim(), action: r.action ?? 'allow', ports: r.ports?.length ? r.ports : undefined}));
    if (await attempt(() => api.send('PUT', `${api.inside(id, api.EGRESS_PORT)}/policy`, {defaultAction: base, egress}), 'The policy is in force.')) {
      setChanged(false);
      again();
    }
  };
  if (!data) return error ? <Problem error={error} /> : <Loading />;
  return (
    <div class="grid two">
      <Card title="Policy" actions={<Tag tone={data.mode === 'allow_all' ? 'held' : 'good'}>{data.mode}</Tag>}>
        <form onSubmit={(e) => { e.preventDefault(); void save(); }}>
          <SelectField label="What no rule names" value={base} on={(v) => { setBase(v); setChanged(true); }} options={[['deny', 'is denied'], ['allow', 'is allowed']]} />
          {rules.map((r, i) => (
            <div key={i} class="row rule">
              <select aria-label={`Action of rule ${i + 1}`} value={r.action ?? 'deny'} onChange={(e) => set(i, {action: e.currentTarget.value})}><option>allow</option><option>deny</option></select>
              <input aria-label={`Target of rule ${i + 1}`} class="mono" value={r.target} placeholder="example.org, *.example.org, 10.0.0.0/8" onInput={(e) => set(i, {target: e.currentTarget.value})} />
              <input aria-label={`Ports of rule ${i + 1}`} class="mono short" value={portsText(r)} placeholder="ports" onChange={(e) => set(i, {ports: e.currentTarget.value.split(/[\s,]+/).filter(Boolean).map((p) => (/^\d+$/.test(p) ? Number(p) : p))})} />
              <IconButton icon="trash" label={`Remove rule ${i + 1}`} onClick={() => edit(rules.filter((_, n) => n !== i))} />
            </div>
          ))}
          <div class="row spread">
            <Button icon="plus" onClick={() => edit([...rules, {action: 'allow', target: ''}])}>Rule</Button>
            <Button type="submit" kind="primary" disabled={!changed}>Put in force</Button>
          </div>
        </form>
        {data.reason && <p class="about">{data.reason}</p>}
      </Card>
      <DeniedFeed id={id} onAllow={(host) => edit([...rules, {action: 'allow', target: host}])} />
    </div>
  );
}

function DeniedFeed({id, onAllow}: {id: string; onAllow: (host: string) => void}) {
  const {data, error} = usePolled(
    async () => parseDenied((await api.get<{content?: string}>(`/v1/sandboxes/${id}/diagnostics/events`, {scope: 'all', limit: 1})).content ?? ''),
    2000,
    [id],
  );
  return (
    <Card title="Denied">
      <Problem error={error} />
      {!data ? !error && <Loading /> : data.length === 0 ? <Empty icon="list">Nothing was denied so far.</Empty> : (
        <ul class="plain-list feed" tabIndex={0} aria-label="What was denied" aria-live="polite">
          {[...data].reverse().slice(0, SHOWN_MAX).map((d, i) => (
            <li key={i} class="row spread nowrap-row"><span><span class="about">{clock(d.time)}</span> <code>{d.target}</code> {d.why}</span><Button aria-label={`Allow ${d.target}`} onClick={() => onAllow(d.target)}>Allow</Button></li>
          ))}
        </ul>
      )}
    </Card>
  );
}
