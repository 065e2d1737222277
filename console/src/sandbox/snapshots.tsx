// Snapshots of a sandbox, forks, and the tree of what was made of what.
import {useState} from 'preact/hooks';
import * as api from '../api';
import {refresh, sandboxes, useCan, usePolled, useValue} from '../live';
import {CreateDialog} from '../pages/create';
import {SnapshotTable} from '../pages/snapshots';
import type {Sandbox, Snapshot} from '../types';
import {attempt, Button, Card, confirm, Empty, Icon, Loading, Problem, State, tell, TextField} from '../ui';

export interface Node {
  kind: 'sandbox' | 'snapshot';
  id: string;
  name: string;
  state: string;
  children: Node[];
}

/** The tree below `root`: its snapshots, sandboxes made of them, and so on. Forks name their source in
 * the metadata that this console gives them. */
export function tree(root: Sandbox, boxes: Sandbox[], shots: Snapshot[]): Node {
  const seen = new Set<string>();
  const box = (s: Sandbox): Node => {
    seen.add(s.id);
    return {
      kind: 'sandbox',
      id: s.id,
      name: s.metadata?.['name'] ?? s.id.slice(0, 8),
      state: s.status.state,
      children: [
        ...shots.filter((p) => p.sandboxId === s.id).map(shot),
        ...boxes.filter((b) => b.metadata?.['fork-of'] === s.id && !seen.has(b.id)).map(box),
      ],
    };
  };
  const shot = (p: Snapshot): Node => ({
    kind: 'snapshot',
    id: p.id,
    name: p.name ?? p.id.slice(0, 8),
    state: p.status.state,
    children: boxes.filter((b) => b.snapshotId === p.id && !seen.has(b.id)).map(box),
  });
  return box(root);
}

function Branch({node, self}: {node: Node; self: string}) {
  return (
    <li>
      <span class="row">
        <Icon name={node.kind === 'sandbox' ? 'box' : 'camera'} label={node.kind} />
        {node.kind === 'sandbox' && node.id !== self ? <a href={`#/sandboxes/${node.id}`}>{node.name}</a> : <b>{node.name}</b>}
        <State value={node.state} />
      </span>
      {node.children.length > 0 && <ul>{node.children.map((c) => <Branch key={c.id} node={c} self={self} />)}</ul>}
    </li>
  );
}

export function SnapshotsTab({sandbox}: {sandbox: Sandbox}) {
  const id = sandbox.id;
  const boxes = useValue(sandboxes) ?? [];
  const {data, error, again} = usePolled(() => api.all<Snapshot>('/v1/snapshots'), 2000, [id]);
  const [name, setName] = useState('');
  const [count, setCount] = useState('1');
  const [busy, setBusy] = useState(false);
  const [use, setUse] = useState<Snapshot | null>(null);
  const own = (data ?? []).filter((s) => s.sandboxId === id);
  const can = useCan();
  const running = sandbox.status.state === 'Running' && can.write;

  const take = async (): Promise<void> => {
    setBusy(true);
    if (await attempt(() => api.send('POST', `/v1/sandboxes/${id}/snapshots`, name.trim() ? {name: name.trim()} : {}), 'The snapshot is being taken.')) setName('');
    setBusy(false);
    again();
  };
  const fork = async (): Promise<void> => {
    setBusy(true);
    await attempt(async () => {
      const {items} = await api.send<{items: Sandbox[]}>('POST', `/v1/sandboxes/${id}/fork`, {count: Number(count) || 1, metadata: {...sandbox.metadata, 'fork-of': id}});
      tell(items.length === 1 ? 'A fork runs.' : `${items.length} forks run.`);
      refresh();
    });
    setBusy(false);
  };
  const back = async (s: Snapshot): Promise<void> => {
    if (await confirm('Roll back', `Its processes end, and its files become those of ${s.name ?? s.id}.`, 'Roll back'))
      await attempt(() => api.send('POST', `/v1/sandboxes/${id}/rollback`, {snapshotId: s.id}), 'The sandbox is rolled back.');
  };
  return (
    <div class="stack">
      <div class="grid two">
        <Card title="Take a snapshot">
          <form class="row bottom" onSubmit={(e) => { e.preventDefault(); void take(); }}>
            <TextField label="Snapshot name" value={name} on={setName} placeholder="optional" />
            <Button type="submit" kind="primary" icon="camera" busy={busy} disabled={!running}>Take</Button>
          </form>
        </Card>
        <Card title="Fork">
          <form class="row bottom" onSubmit={(e) => { e.preventDefault(); void fork(); }}>
            <TextField label="How many" type="number" value={count} on={setCount} required />
            <Button type="submit" kind="primary" icon="plus" busy={busy} disabled={!running}>Fork</Button>
          </form>
        </Card>
      </div>
      <Problem error={error} />
      {!data ? !error && <Loading /> : own.length === 0 ? <Empty icon="camera">This sandbox has no snapshot.</Empty>
        : <SnapshotTable rows={own} again={again} onUse={setUse} extra={(s) => <Button disabled={s.status.state !== 'Ready'} onClick={() => void back(s)}>Roll back</Button>} />}
      <Card title="Made of this sandbox"><ul class="tree"><Branch node={tree(sandbox, boxes, data ?? [])} self={id} /></ul></Card>
      {use && <CreateDialog snapshot={use} onClose={() => setUse(null)} />}
    </div>
  );
}
