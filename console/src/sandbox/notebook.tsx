// Cells of code in a context that remembers, with results of several kinds.
import {useRef, useState} from 'preact/hooks';
import * as api from '../api';
import {readEvents} from '../stream';
import type {CodeEvent} from '../types';
import {Button, Empty, IconButton, Problem, tell} from '../ui';

interface Output {
  kind: 'stdout' | 'stderr' | 'error' | 'result';
  text?: string;
  results?: Record<string, string>;
  display?: string;
}

interface Cell {
  id: number;
  code: string;
  count: number | null;
  running: boolean;
  ms: number | null;
  outputs: Output[];
}

const LANGUAGES = ['python', 'javascript', 'typescript', 'bash', 'java', 'go'];
const OUTPUT_CHARS_MAX = 200000;
let cells = 0;
const fresh = (code = ''): Cell => ({id: ++cells, code, count: null, running: false, ms: null, outputs: []});

/** Adds an event to what a cell has printed. */
export function addOutput(outputs: Output[], e: CodeEvent): Output[] {
  if (e.type === 'stdout' || e.type === 'stderr') {
    const last = outputs[outputs.length - 1];
    const text = e.text ?? '';
    if (last?.kind === e.type) return [...outputs.slice(0, -1), {...last, text: ((last.text ?? '') + text).slice(-OUTPUT_CHARS_MAX)}];
    return [...outputs, {kind: e.type, text}];
  }
  if (e.type === 'error' && e.error) {
    const {ename, evalue, traceback} = e.error;
    return [...outputs, {kind: 'error', text: traceback?.length ? traceback.join('\n') : `${ename}: ${evalue}`}];
  }
  if (e.type === 'result' && e.results) {
    const one: Output = {kind: 'result', results: e.results, display: e.display?.id || undefined};
    if (e.display?.update && e.display.id) return outputs.map((o) => (o.display === e.display!.id ? one : o));
    return [...outputs, one];
  }
  return outputs;
}

// eslint-disable-next-line no-control-regex
const plain = (text: string): string => text.replace(/\u001b\[[0-9;]*[A-Za-z]/g, '');

function Rich({results}: {results: Record<string, string>}) {
  const svg = results['image/svg+xml'];
  const bitmap = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'].find((t) => results[t]);
  if (bitmap) return <img class="rich" alt={results['text/plain'] ?? 'result'} src={`data:${bitmap};base64,${results[bitmap]!.replace(/\s/g, '')}`} />;
  // As an image, a drawing cannot run code.
  if (svg) return <img class="rich" alt={results['text/plain'] ?? 'result'} src={`data:image/svg+xml;base64,${btoa(String.fromCharCode(...new TextEncoder().encode(svg)))}`} />;
  // In a frame without rights: no scripts, no forms, no access to this page.
  if (results['text/html']) return <iframe class="rich html" title="Result" sandbox="" srcdoc={results['text/html']} />;
  if (results['application/json']) return <pre class="out">{pretty(results['application/json'])}</pre>;
  return <pre class="out">{plain(results['text/plain'] ?? results['text/markdown'] ?? results['text'] ?? Object.keys(results).join(', '))}</pre>;
}

function pretty(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}

export function Notebook({id}: {id: string}) {
  const [language, setLanguage] = useState('python');
  const [list, setList] = useState<Cell[]>(() => [fresh()]);
  const context = useRef<Record<string, string>>({});
  const [error, setError] = useState<string | null>(null);
  const change = (cell: number, f: (c: Cell) => Cell): void => setList((l) => l.map((c) => (c.id === cell ? f(c) : c)));

  const contextOf = async (): Promise<string> => {
    const known = context.current[language];
    if (known) return known;
    const made = await api.send<{id: string}>('POST', `${api.inside(id)}/code/context`, {language});
    context.current[language] = made.id;
    return made.id;
  };
  const run = async (cell: Cell): Promise<void> => {
    if (!cell.code.trim() || cell.running) return;
    setError(null);
    change(cell.id, (c) => ({...c, running: true, outputs: [], ms: null}));
    if (list[list.length - 1]?.id === cell.id) setList((l) => [...l, fresh()]);
    try {
      const answer = await api.call(`${api.inside(id)}/code`, {method: 'POST', json: {code: cell.code, context: {id: await contextOf(), language}}, patient: true});
      await readEvents<CodeEvent>(answer, (e) => change(cell.id, (c) => ({
        ...c,
        count: e.execution_count ?? c.count,
        ms: e.type === 'execution_complete' ? (e.execution_time ?? 0) : c.ms,
        outputs: addOutput(c.outputs, e),
      })));
    } catch (e) {
      if (e instanceof api.ApiError && /context/i.test(e.message)) delete context.current[language];
      setError((e as Error).message);
    }
    change(cell.id, (c) => ({...c, running: false}));
  };
  const interrupt = (): void => {
    const known = context.current[language];
    if (known) void api.call(`${api.inside(id)}/code`, {method: 'DELETE', query: {id: known}}).catch((e: Error) => tell(e.message, true));
  };
  const restart = async (): Promise<void> => {
    const known = context.current[language];
    delete context.current[language];
    if (known) await api.call(`${api.inside(id)}/code/contexts/${known}`, {method: 'DELETE'}).catch(() => undefined);
    tell('The next cell begins anew.');
  };

  return (
    <div class="notebook">
      <div class="toolbar">
        <select aria-label="Language" value={language} onChange={(e) => setLanguage(e.currentTarget.value)}>{LANGUAGES.map((l) => <option key={l}>{l}</option>)}</select>
        <Button icon="plus" onClick={() => setList([...list, fresh()])}>Cell</Button>
        <Button icon="play" onClick={() => void list.reduce((p, c) => p.then(() => run(c)), Promise.resolve())}>Run all</Button>
        <Button icon="refresh" onClick={() => void restart()}>Restart</Button>
      </div>
      <Problem error={error} />
      {list.length === 0 && <Empty icon="file">No cell.</Empty>}
      {list.map((c, i) => (
        <section key={c.id} class="cell" aria-label={`Cell ${i + 1}`}>
          <div class="cell-side">
            <span class="about">[{c.running ? '*' : (c.count ?? ' ')}]</span>
            {c.running ? <IconButton icon="stop" label="Interrupt" onClick={interrupt} /> : <IconButton icon="play" label="Run this cell" onClick={() => void run(c)} />}
            <IconButton icon="trash" label="Remove this cell" onClick={() => setList(list.filter((o) => o.id !== c.id))} />
          </div>
          <div class="cell-main">
            <textarea class="mono" aria-label={`Code of cell ${i + 1}`} rows={Math.min(20, Math.max(2, c.code.split('\n').length))} value={c.code} spellcheck={false} placeholder={i === 0 ? 'Ctrl Enter runs it' : ''}
              onInput={(e) => { const code = e.currentTarget.value; change(c.id, (o) => ({...o, code})); }}
              onKeyDown={(e) => {
                if (e.key === 'Enter' && (e.ctrlKey || e.metaKey || e.shiftKey)) {
                  e.preventDefault();
                  void run({...c, code: e.currentTarget.value});
                } else if (e.key === 'Tab' && !e.shiftKey && e.currentTarget.selectionStart !== 0) {
                  e.preventDefault();
                  e.currentTarget.setRangeText('    ', e.currentTarget.selectionStart, e.currentTarget.selectionEnd, 'end');
                  const code = e.currentTarget.value;
                  change(c.id, (o) => ({...o, code}));
                }
              }} />
            <div class="outputs" aria-live="polite">
              {c.outputs.map((o, n) => (o.kind === 'result' ? <Rich key={n} results={o.results!} /> : <pre key={n} class={`out ${o.kind}`}>{plain(o.text ?? '')}</pre>))}
              {c.ms !== null && <span class="about">{c.ms} ms</span>}
            </div>
          </div>
        </section>
      ))}
    </div>
  );
}
