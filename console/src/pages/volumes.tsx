import {useState} from 'preact/hooks';
import * as api from '../api';
import {bytes} from '../format';
import {useCan, usePolled} from '../live';
import type {Volume} from '../types';
import {Ago, attempt, Button, Card, confirm, Empty, Id, Loading, PageHead, Problem, Table, TextField} from '../ui';

export function VolumesPage() {
  const {data, error, again} = usePolled(() => api.all<Volume>('/v1/volumes'), 10000, []);
  const [name, setName] = useState('');
  const can = useCan();
  const [size, setSize] = useState('');
  const create = async (): Promise<void> => {
    const ok = await attempt(() => api.send('POST', '/v1/volumes', {name: name.trim(), ...(size.trim() ? {size: size.trim()} : {})}), 'The volume is made.');
    if (ok) {
      setName('');
      setSize('');
      again();
    }
  };
  const remove = async (v: Volume): Promise<void> => {
    if (await confirm('Delete this volume', `${v.name} and all its files will be gone.`, 'Delete'))
      if (await attempt(() => api.send('DELETE', `/v1/volumes/${encodeURIComponent(v.name)}`), 'The volume is deleted.')) again();
  };
  return (
    <>
      <PageHead title="Volumes" about="Directories with names, which outlive sandboxes." />
      {can.write && <Card title="Make a volume">
        <form class="row bottom" onSubmit={(e) => { e.preventDefault(); void create(); }}>
          <TextField label="Name" value={name} on={setName} required placeholder="data" />
          <TextField label="Size limit" value={size} on={setSize} placeholder="none, or 10Gi" />
          <Button type="submit" kind="primary" icon="plus">Make</Button>
        </form>
      </Card>}
      <Problem error={error} />
      {!data ? !error && <Loading /> : data.length === 0 ? <Empty icon="disk">There is no volume.</Empty>
        : <Table label="Volumes" rows={data} keyOf={(v) => v.name} columns={[
            {name: 'Name', cell: (v) => v.name},
            {name: 'Used', number: true, cell: (v) => bytes(v.usedBytes)},
            {name: 'Limit', number: true, cell: (v) => (v.sizeBytes === null ? 'none' : bytes(v.sizeBytes))},
            {name: 'Mounted by', cell: (v) => v.usedBy.length === 0 ? '–' : v.usedBy.map((id) => <a key={id} href={`#/sandboxes/${id}`}><Id id={id} /> </a>)},
            {name: 'Made', cell: (v) => <Ago time={v.createdAt} />},
          ]} actions={(v) => can.write && <Button kind="quiet" icon="trash" aria-label={`Delete volume ${v.name}`} disabled={v.usedBy.length > 0} onClick={() => void remove(v)} />} />}
    </>
  );
}
