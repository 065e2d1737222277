import {useEffect, useState} from 'preact/hooks';
import * as api from '../api';
import {pairs, words} from '../format';
import {refresh} from '../live';
import type {Image, Page, Policy, Sandbox, Snapshot, Volume} from '../types';
import {AreaField, Button, CheckField, Dialog, Problem, SelectField, tell, TextField} from '../ui';

/** "allow example.org" lines, or bare targets, which are allowed. */
export function parseRules(text: string): {action: string; target: string}[] {
  return text.split('\n').map((l) => l.trim()).filter(Boolean).map((line) => {
    const [first, second] = line.split(/\s+/);
    return first === 'allow' || first === 'deny' ? {action: first, target: second ?? ''} : {action: 'allow', target: first!};
  });
}

export function CreateDialog({onClose, snapshot}: {onClose: () => void; snapshot?: Snapshot}) {
  const [from, setFrom] = useState(snapshot ? 'snapshot' : 'image');
  const [image, setImage] = useState('host');
  const [snapshotId, setSnapshotId] = useState(snapshot?.id ?? '');
  const [command, setCommand] = useState('tail -f /dev/null');
  const [cpu, setCpu] = useState('1');
  const [memory, setMemory] = useState('512Mi');
  const [ttl, setTtl] = useState('3600');
  const [count, setCount] = useState('1');
  const [env, setEnv] = useState('');
  const [labels, setLabels] = useState('');
  const [network, setNetwork] = useState('open');
  const [rules, setRules] = useState('');
  const [volume, setVolume] = useState('');
  const [mountAt, setMountAt] = useState('/data');
  const [persistent, setPersistent] = useState(false);
  const [known, setKnown] = useState<{images: string[]; volumes: string[]}>({images: [], volumes: []});
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(null);

  useEffect(() => {
    void Promise.all([
      api.get<Page<Image>>('/v1/images', {pageSize: 200}).then((p) => p.items.flatMap((i) => i.names), () => []),
      api.get<Page<Volume>>('/v1/volumes', {pageSize: 200}).then((p) => p.items.map((v) => v.name), () => []),
    ]).then(([images, volumes]) => setKnown({images: ['host', ...images], volumes}));
  }, []);

  const body = (): unknown => {
    const limits: Record<string, string> = {};
    if (cpu.trim()) limits['cpu'] = cpu.trim();
    if (memory.trim()) limits['memory'] = memory.trim();
    const policy: Policy | undefined = network === 'open' ? undefined
      : {defaultAction: network === 'rules' ? 'deny' : 'deny', egress: network === 'rules' ? parseRules(rules) : []};
    return {
      ...(from === 'image' ? {image: {uri: image.trim()}} : {snapshotId: snapshotId.trim()}),
      ...(command.trim() ? {entrypoint: words(command)} : {}),
      resourceLimits: limits,
      ...(ttl === '' ? {} : {timeout: Number(ttl)}),
      ...(env.trim() ? {env: pairs(env)} : {}),
      ...(labels.trim() ? {metadata: pairs(labels)} : {}),
      ...(policy ? {networkPolicy: policy} : {}),
      ...(volume.trim() ? {volumes: [{name: 'data', mountPath: mountAt.trim(), pvc: {claimName: volume.trim(), createIfNotExists: true}}]} : {}),
      ...(persistent ? {persistent: true} : {}),
    };
  };

  const create = async (): Promise<void> => {
    setBusy(true);
    setError(null);
    try {
      const request = body();
      const n = Math.max(1, Math.min(100, Math.round(Number(count) || 1)));
      const made = await Promise.all(Array.from({length: n}, () => api.send<Sandbox>('POST', '/v1/sandboxes', request)));
      refresh();
      tell(n === 1 ? 'The sandbox is created.' : `${n} sandboxes are created.`);
      onClose();
      if (n === 1) location.hash = `#/sandboxes/${made[0]!.id}`;
    } catch (e) {
      setError((e as Error).message);
      setBusy(false);
    }
  };

  return (
    <Dialog title="Create a sandbox" onClose={onClose} wide>
      <form onSubmit={(e) => { e.preventDefault(); void create(); }}>
        <div class="grid two tight">
          <SelectField label="Made of" value={from} on={setFrom} options={[['image', 'An image'], ['snapshot', 'A snapshot']]} />
          {from === 'image'
            ? <TextField label="Image" value={image} on={setImage} required list={known.images} hint="host is this machine's own programs." />
            : <TextField label="Snapshot id" value={snapshotId} on={setSnapshotId} required mono />}
          <TextField label="Command" value={command} on={setCommand} mono hint="The sandbox ends with it. tail -f /dev/null keeps it open." />
          <SelectField label="Time to live" value={ttl} on={setTtl} options={[['600', '10 minutes'], ['3600', '1 hour'], ['28800', '8 hours'], ['86400', '1 day'], ['', 'Until it is deleted']]} />
          <TextField label="CPU" value={cpu} on={setCpu} hint="Cores, such as 0.5 or 500m; empty is no limit." />
          <TextField label="Memory" value={memory} on={setMemory} hint="Such as 512Mi or 2Gi; empty is no limit." />
          <AreaField label="Environment" value={env} on={setEnv} placeholder="NAME=VALUE" hint="One per line." />
          <AreaField label="Metadata" value={labels} on={setLabels} placeholder="team=search" hint="One per line." />
          <SelectField label="Network" value={network} on={setNetwork} options={[['open', 'As the server allows'], ['rules', 'Only what the rules allow'], ['none', 'Nothing']]} />
          <TextField label="How many" type="number" value={count} on={setCount} />
          {network === 'rules' && <AreaField label="Rules" value={rules} on={setRules} placeholder={'allow example.org\nallow *.example.com'} hint="allow or deny, and a name, address or network." />}
          <TextField label="Volume" value={volume} on={setVolume} list={known.volumes} hint="Its name; made when it is not there. Optional." />
          {volume && <TextField label="Mounted at" value={mountAt} on={setMountAt} mono />}
        </div>
        <CheckField label="Keep its files when it is stopped" value={persistent} on={setPersistent} />
        <Problem error={error} />
        <footer class="row end">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" kind="primary" busy={busy}>Create</Button>
        </footer>
      </form>
    </Dialog>
  );
}
