import {useState} from 'preact/hooks';
import * as api from '../api';
import {Meter} from '../chart';
import {bytes} from '../format';
import {useCan, usePolled} from '../live';
import {readEvents} from '../stream';
import type {Image} from '../types';
import {Ago, attempt, Button, Card, confirm, Empty, Loading, PageHead, Problem, Table, Tag, tell, TextField} from '../ui';

interface PullEvent {
  type: string;
  message?: string;
  bytesDone?: number;
  bytesTotal?: number;
}

export function ImagesPage() {
  const {data, error, again} = usePolled(() => api.all<Image>('/v1/images'), 10000, []);
  const can = useCan();
  const [uri, setUri] = useState('');
  const [pull, setPull] = useState<{uri: string; event: PullEvent} | null>(null);
  const [failed, setFailed] = useState<string | null>(null);

  const start = async (): Promise<void> => {
    const name = uri.trim();
    setFailed(null);
    setPull({uri: name, event: {type: 'progress', message: 'asking the registry'}});
    try {
      const answer = await api.call('/v1/images/pull', {method: 'POST', json: {image: {uri: name}}, headers: {Accept: 'text/event-stream'}, patient: true});
      await readEvents<PullEvent>(answer, (event) => {
        if (event.type === 'error') setFailed(event.message ?? 'it failed');
        else if (event.type === 'progress') setPull({uri: name, event});
        else {
          tell(`${name} is here.`);
          setUri('');
        }
      });
    } catch (e) {
      setFailed((e as Error).message);
    }
    setPull(null);
    again();
  };
  const remove = async (i: Image): Promise<void> => {
    const name = i.names[0] ?? i.id;
    if (await confirm('Delete this image', `${name} will be gone.`, 'Delete'))
      if (await attempt(() => api.send('DELETE', `/v1/images/${encodeURIComponent(name)}`), 'The image is deleted.')) again();
  };
  const prune = async (): Promise<void> => {
    if (!(await confirm('Prune', 'Layers that no image has will be removed.', 'Prune'))) return;
    await attempt(async () => {
      const done = await api.send<{freedBytes: number}>('POST', '/v1/images/prune', {});
      tell(`${bytes(done.freedBytes)} freed.`);
    });
    again();
  };
  return (
    <>
      <PageHead title="Images" about={data ? `${bytes(data.reduce((n, i) => n + i.size, 0))} in ${data.length} ${data.length === 1 ? 'image' : 'images'}` : undefined}>
        {can.all && <Button icon="refresh" onClick={() => void prune()}>Prune</Button>}
      </PageHead>
      {can.write && <Card title="Pull an image">
        <form class="row bottom" onSubmit={(e) => { e.preventDefault(); void start(); }}>
          <TextField label="Name" value={uri} on={setUri} placeholder="python:3.12-slim" required />
          <Button type="submit" kind="primary" icon="download" busy={pull !== null}>Pull</Button>
        </form>
        {pull && <Meter label={`${pull.uri}: ${pull.event.message ?? ''}`} value={pull.event.bytesDone ?? 0} max={pull.event.bytesTotal ?? 0} text={pull.event.bytesTotal ? `${bytes(pull.event.bytesDone)} of ${bytes(pull.event.bytesTotal)}` : ''} fullIsGood />}
        <Problem error={failed} />
      </Card>}
      <Problem error={error} />
      {!data ? !error && <Loading /> : data.length === 0
        ? <Empty icon="layers">No image is kept here yet. Sandboxes of "host" need none.</Empty>
        : <Table label="Images" rows={data} keyOf={(i) => i.id} columns={[
            {name: 'Name', cell: (i) => i.names.map((n) => <div key={n}>{n}</div>)},
            {name: 'Platform', cell: (i) => `${i.platform.os}/${i.platform.arch}`},
            {name: 'Layers', number: true, cell: (i) => i.layers},
            {name: 'Size', number: true, cell: (i) => bytes(i.size)},
            {name: 'Last used', cell: (i) => <Ago time={i.lastUsedAt} />},
            {name: 'Use', cell: (i) => (i.inUse ? <Tag tone="good">in use</Tag> : '–')},
          ]} actions={(i) => can.all && <Button kind="quiet" icon="trash" aria-label={`Delete image ${i.names[0]}`} disabled={i.inUse} onClick={() => void remove(i)} />} />}
    </>
  );
}
