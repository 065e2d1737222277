import {useState} from 'preact/hooks';
import * as api from '../api';
import {bytes} from '../format';
import {useCan, usePolled} from '../live';
import type {Snapshot} from '../types';
import {Ago, attempt, Button, confirm, Empty, Id, Loading, PageHead, Problem, State, Table} from '../ui';
import {CreateDialog} from './create';

export function SnapshotTable({rows, again, onUse, extra}: {rows: Snapshot[]; again: () => void; onUse: (s: Snapshot) => void; extra?: (s: Snapshot) => preact.ComponentChildren}) {
  const can = useCan();
  const remove = async (s: Snapshot): Promise<void> => {
    if (await confirm('Delete this snapshot', `${s.name ?? s.id} will be gone. Sandboxes made of it stay.`, 'Delete'))
      if (await attempt(() => api.send('DELETE', `/v1/snapshots/${s.id}`), 'The snapshot is deleted.')) again();
  };
  return (
    <Table label="Snapshots" rows={rows} keyOf={(s) => s.id} columns={[
      {name: 'State', cell: (s) => <span title={s.status.message}><State value={s.status.state} /></span>},
      {name: 'Name', cell: (s) => s.name ?? '–'},
      {name: 'Id', cell: (s) => <Id id={s.id} />},
      {name: 'Of sandbox', cell: (s) => <a href={`#/sandboxes/${s.sandboxId}`}><Id id={s.sandboxId} /></a>},
      {name: 'Size', number: true, cell: (s) => bytes(s.sizeBytes)},
      {name: 'Stood still', number: true, cell: (s) => (s.frozenMs === undefined ? '–' : `${s.frozenMs} ms`)},
      {name: 'Taken', cell: (s) => <Ago time={s.createdAt} />},
    ]} actions={(s) => can.write && (
      <>
        {extra?.(s)}
        <Button disabled={s.status.state !== 'Ready'} onClick={() => onUse(s)}>Restore</Button>
        <Button kind="quiet" icon="trash" aria-label={`Delete snapshot ${s.name ?? s.id}`} onClick={() => void remove(s)} />
      </>
    )} />
  );
}

export function SnapshotsPage() {
  const {data, error, again} = usePolled(() => api.all<Snapshot>('/v1/snapshots'), 3000, []);
  const [use, setUse] = useState<Snapshot | null>(null);
  return (
    <>
      <PageHead title="Snapshots" about="Files of sandboxes, kept. A sandbox can be made of each." />
      <Problem error={error} />
      {!data ? !error && <Loading /> : data.length === 0
        ? <Empty icon="camera">There is no snapshot. Take one on the page of a sandbox.</Empty>
        : <SnapshotTable rows={data} again={again} onUse={setUse} />}
      {use && <CreateDialog snapshot={use} onClose={() => setUse(null)} />}
    </>
  );
}
