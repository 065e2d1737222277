import {useState} from 'preact/hooks';
import * as api from '../api';
import {words} from '../format';
import {useCan, usePolled} from '../live';
import type {Capacity, Pool} from '../types';
import {Ago, attempt, Button, confirm, Dialog, Empty, Loading, PageHead, Problem, Table, TextField} from '../ui';

const CAPACITY: [keyof Capacity, string, string][] = [
  ['bufferMin', 'Waiting, at least', '1'],
  ['bufferMax', 'Waiting, at most', '3'],
  ['poolMin', 'In all, at least', '0'],
  ['poolMax', 'In all, at most', '10'],
];

function PoolDialog({pool, onClose, onDone}: {pool: Pool | null; onClose: () => void; onDone: () => void}) {
  const [name, setName] = useState(pool?.name ?? '');
  const [image, setImage] = useState('host');
  const [command, setCommand] = useState('tail -f /dev/null');
  const [memory, setMemory] = useState('512Mi');
  const [cap, setCap] = useState<Record<string, string>>(Object.fromEntries(CAPACITY.map(([k, , d]) => [k, String(pool?.capacitySpec[k] ?? d)])));
  const [error, setError] = useState<string | null>(null);
  const save = async (): Promise<void> => {
    const capacitySpec = Object.fromEntries(CAPACITY.map(([k]) => [k, Number(cap[k])]));
    try {
      if (pool) await api.send('PUT', `/v1/pools/${encodeURIComponent(pool.name)}`, {capacitySpec});
      else await api.send('POST', '/v1/pools', {name: name.trim(), capacitySpec, template: {image: {uri: image.trim()}, entrypoint: words(command), resourceLimits: {memory}}});
      onDone();
      onClose();
    } catch (e) {
      setError((e as Error).message);
    }
  };
  return (
    <Dialog title={pool ? `Capacity of ${pool.name}` : 'Make a pool'} onClose={onClose}>
      <form onSubmit={(e) => { e.preventDefault(); void save(); }}>
        <div class="grid two tight">
          {!pool && <>
            <TextField label="Name" value={name} on={setName} required />
            <TextField label="Image" value={image} on={setImage} required />
            <TextField label="Command" value={command} on={setCommand} mono />
            <TextField label="Memory" value={memory} on={setMemory} />
          </>}
          {CAPACITY.map(([k, label]) => <TextField key={k} label={label} type="number" value={cap[k] ?? ''} on={(v) => setCap({...cap, [k]: v})} />)}
        </div>
        <Problem error={error} />
        <footer class="row end"><Button onClick={onClose}>Cancel</Button><Button type="submit" kind="primary">Save</Button></footer>
      </form>
    </Dialog>
  );
}

export function PoolsPage() {
  const {data, error, again} = usePolled(() => api.get<{items: Pool[]}>('/v1/pools'), 3000, []);
  const can = useCan();
  const [open, setOpen] = useState<Pool | 'new' | null>(null);
  const remove = async (p: Pool): Promise<void> => {
    if (await confirm('Delete this pool', `${p.name} and its waiting sandboxes will be gone; those in use stay.`, 'Delete'))
      if (await attempt(() => api.send('DELETE', `/v1/pools/${encodeURIComponent(p.name)}`), 'The pool is deleted.')) again();
  };
  return (
    <>
      <PageHead title="Pools" about="Sandboxes made ahead, to be claimed at once.">
        {can.admin && <Button icon="plus" kind="primary" onClick={() => setOpen('new')}>Make a pool</Button>}
      </PageHead>
      <Problem error={error} />
      {!data ? !error && <Loading /> : data.items.length === 0 ? <Empty icon="pool">There is no pool.</Empty>
        : <Table label="Pools" rows={data.items} keyOf={(p) => p.name} columns={[
            {name: 'Name', cell: (p) => <>{p.name}{p.status.message && <div class="hint error">{p.status.message}</div>}</>},
            {name: 'Available', number: true, cell: (p) => p.status.available},
            {name: 'Claimed', number: true, cell: (p) => p.status.allocated},
            {name: 'In all', number: true, cell: (p) => p.status.total},
            {name: 'Waiting', cell: (p) => `${p.capacitySpec.bufferMin} to ${p.capacitySpec.bufferMax}`},
            {name: 'Limits', cell: (p) => `${p.capacitySpec.poolMin} to ${p.capacitySpec.poolMax}`},
            {name: 'Made', cell: (p) => <Ago time={p.createdAt} />},
          ]} actions={(p) => can.admin && <><Button onClick={() => setOpen(p)}>Capacity</Button><Button kind="quiet" icon="trash" aria-label={`Delete pool ${p.name}`} onClick={() => void remove(p)} /></>} />}
      {open && <PoolDialog pool={open === 'new' ? null : open} onClose={() => setOpen(null)} onDone={again} />}
    </>
  );
}
