import {useEffect, useRef, useState} from 'preact/hooks';
import * as api from '../api';
import {usePolled} from '../live';
import {Button, CheckField, Empty, Loading, Problem} from '../ui';

export function Logs({id}: {id: string}) {
  const [tail, setTail] = useState('500');
  const [follow, setFollow] = useState(true);
  const [find, setFind] = useState('');
  const box = useRef<HTMLPreElement>(null);
  const {data, error, again} = usePolled(
    () => api.get<{content?: string; truncated?: boolean}>(`/v1/sandboxes/${id}/diagnostics/logs`, {scope: 'container', tail, since: '3650d'}),
    follow ? 2000 : 0,
    [id, tail, follow],
  );
  const lines = (data?.content ?? '').split('\n').filter((l) => l && l.toLowerCase().includes(find.toLowerCase()));
  useEffect(() => {
    if (follow && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [data?.content, follow]);
  return (
    <>
      <div class="toolbar">
        <input type="search" aria-label="Find in the log" placeholder="Find" value={find} onInput={(e) => setFind(e.currentTarget.value)} />
        <select aria-label="How many lines" value={tail} onChange={(e) => setTail(e.currentTarget.value)}>
          {['100', '500', '2000', '10000'].map((n) => <option key={n} value={n}>{n} lines</option>)}
        </select>
        <CheckField label="Follow" value={follow} on={setFollow} />
        <Button icon="refresh" onClick={again}>Refresh</Button>
      </div>
      <Problem error={error} />
      {!data ? !error && <Loading /> : lines.length === 0 ? <Empty icon="list">{data.content ? 'No line fits.' : 'The command has printed nothing.'}</Empty>
        : <pre class="log" ref={box} tabIndex={0} aria-label="Log">{lines.join('\n')}</pre>}
    </>
  );
}
