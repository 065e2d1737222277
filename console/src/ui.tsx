// The pieces that all pages are made of.
import type {ComponentChildren, JSX} from 'preact';
import {useEffect, useId, useRef, useState} from 'preact/hooks';
import {ago, shortId, until} from './format';
import {now, useValue, Value} from './live';

// --- icons: strokes in a box of 24 ---

const ICONS: Record<string, string> = {
  overview: 'M4 13h6V4H4zM14 20h6V4h-6zM4 20h6v-4H4z',
  box: 'M4 8l8-4 8 4v8l-8 4-8-4zM4 8l8 4 8-4M12 12v8',
  camera: 'M4 8h3l2-3h6l2 3h3v11H4zM12 16a3 3 0 1 0 0-6 3 3 0 0 0 0 6',
  layers: 'M12 4l8 4-8 4-8-4zM4 12l8 4 8-4M4 16l8 4 8-4',
  disk: 'M4 6c0-1.1 3.6-2 8-2s8 .9 8 2v12c0 1.1-3.6 2-8 2s-8-.9-8-2zM4 6c0 1.1 3.6 2 8 2s8-.9 8-2M4 12c0 1.1 3.6 2 8 2s8-.9 8-2',
  pool: 'M4 5h7v6H4zM13 5h7v6h-7zM4 13h7v6H4zM13 13h7v6h-7z',
  key: 'M8 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM12 12h9M18 12v4M15 12v3',
  users: 'M9 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7zM3 20c0-3.3 2.700-6 6-6s6 2.700 6 6M16 4.500a3.500 3.500 0 0 1 0 6.500M18 14.500c1.800.8 3 2.700 3 5.500',
  list: 'M8 6h12M8 12h12M8 18h12M4 6h.01M4 12h.01M4 18h.01',
  settings: 'M5 7h9M18 7h1M5 17h1M10 17h9M16 9.500a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5zM8 19.500a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5z',
  plus: 'M12 5v14M5 12h14',
  close: 'M6 6l12 12M18 6L6 18',
  search: 'M11 17a6 6 0 1 0 0-12 6 6 0 0 0 0 12zM20 20l-4.500-4.500',
  menu: 'M4 7h16M4 12h16M4 17h16',
  sun: 'M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM12 3v2M12 19v2M3 12h2M19 12h2M5.600 5.600l1.400 1.400M17 17l1.400 1.400M5.600 18.400L7 17M17 7l1.400-1.400',
  moon: 'M20 14.500A8 8 0 0 1 9.500 4 8 8 0 1 0 20 14.500z',
  out: 'M14 4h5v16h-5M10 8l-4 4 4 4M6 12h9',
  folder: 'M3 6h6l2 2h10v11H3z',
  file: 'M6 3h8l4 4v14H6zM14 3v4h4',
  link: 'M10 14l4-4M8 12l-2 2a3 3 0 0 0 4 4l2-2M16 12l2-2a3 3 0 0 0-4-4l-2 2',
  up: 'M12 19V5M6 11l6-6 6 6',
  download: 'M12 4v11M7 11l5 5 5-5M5 20h14',
  upload: 'M12 16V5M7 9l5-5 5 5M5 20h14',
  trash: 'M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13M10 11v5M14 11v5',
  play: 'M7 5l12 7-12 7z',
  stop: 'M6 6h12v12H6z',
  refresh: 'M20 11a8 8 0 0 0-14.500-3.500L4 9M4 4v5h5M4 13a8 8 0 0 0 14.500 3.500L20 15M20 20v-5h-5',
  external: 'M14 4h6v6M20 4l-9 9M18 14v6H4V6h6',
};

export function Icon({name, label}: {name: string; label?: string}) {
  return (
    <svg class="icon" viewBox="0 0 24 24" role={label ? 'img' : undefined} aria-label={label} aria-hidden={label ? undefined : 'true'}>
      <path d={ICONS[name] ?? ''} />
    </svg>
  );
}

// --- buttons ---

type ButtonProps = Omit<JSX.HTMLAttributes<HTMLButtonElement>, 'icon'> & {
  icon?: string;
  kind?: 'primary' | 'danger' | 'plain' | 'quiet';
  busy?: boolean;
  disabled?: boolean;
  type?: 'button' | 'submit';
};

export function Button({icon, kind = 'plain', busy, disabled, children, type = 'button', ...rest}: ButtonProps) {
  return (
    <button {...rest} type={type} class={`button ${kind}`} disabled={disabled || busy} aria-busy={busy || undefined}>
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

export function IconButton({icon, label, ...rest}: Omit<ButtonProps, 'children'> & {icon: string; label: string}) {
  return (
    <Button {...rest} icon={icon} kind={rest.kind ?? 'quiet'} aria-label={label} title={label} />
  );
}

// --- states and values ---

const TONES: Record<string, string> = {
  Running: 'good',
  Ready: 'good',
  Pending: 'wait',
  Creating: 'wait',
  Resuming: 'wait',
  Pausing: 'wait',
  Stopping: 'wait',
  Deleting: 'wait',
  Paused: 'held',
  Failed: 'bad',
  Terminated: 'off',
};

export function State({value}: {value: string}) {
  return <span class={`state ${TONES[value] ?? 'off'}`}>{value}</span>;
}

export function Tag({children, tone = ''}: {children: ComponentChildren; tone?: string}) {
  return <span class={`tag ${tone}`}>{children}</span>;
}

export function Ago({time}: {time?: string}) {
  return <time dateTime={time} title={time}>{ago(time, useValue(now))}</time>;
}

export function Until({time}: {time?: string}) {
  return <time dateTime={time} title={time}>{until(time, useValue(now))}</time>;
}

export const Id = ({id}: {id: string}) => <code class="id" title={id}>{shortId(id)}</code>;

// --- forms ---

export function Field({label, hint, error, children}: {label: string; hint?: string; error?: string | null; children: (id: string, described?: string) => ComponentChildren}) {
  const id = useId();
  const about = hint || error ? `${id}-about` : undefined;
  return (
    <div class="field">
      <label for={id}>{label}</label>
      {children(id, about)}
      {(hint || error) && <div id={about} class={error ? 'hint error' : 'hint'}>{error ?? hint}</div>}
    </div>
  );
}

export function TextField(p: {label: string; value: string; on: (v: string) => void; hint?: string; error?: string | null; placeholder?: string; type?: string; required?: boolean; list?: string[]; mono?: boolean}) {
  const listId = useId();
  return (
    <Field label={p.label} hint={p.hint} error={p.error}>
      {(id, about) => (
        <>
          <input id={id} aria-describedby={about} type={p.type ?? 'text'} value={p.value} placeholder={p.placeholder} required={p.required} list={p.list ? listId : undefined} class={p.mono ? 'mono' : ''} autocomplete="off" spellcheck={false} onInput={(e) => p.on(e.currentTarget.value)} />
          {p.list && <datalist id={listId}>{p.list.map((v) => <option key={v} value={v} />)}</datalist>}
        </>
      )}
    </Field>
  );
}

export function AreaField(p: {label: string; value: string; on: (v: string) => void; hint?: string; error?: string | null; placeholder?: string; rows?: number}) {
  return (
    <Field label={p.label} hint={p.hint} error={p.error}>
      {(id, about) => <textarea id={id} aria-describedby={about} class="mono" rows={p.rows ?? 3} value={p.value} placeholder={p.placeholder} spellcheck={false} onInput={(e) => p.on(e.currentTarget.value)} />}
    </Field>
  );
}

export function SelectField(p: {label: string; value: string; on: (v: string) => void; options: [string, string][]; hint?: string}) {
  return (
    <Field label={p.label} hint={p.hint}>
      {(id, about) => (
        <select id={id} aria-describedby={about} value={p.value} onChange={(e) => p.on(e.currentTarget.value)}>
          {p.options.map(([v, text]) => <option key={v} value={v}>{text}</option>)}
        </select>
      )}
    </Field>
  );
}

export function CheckField(p: {label: string; value: boolean; on: (v: boolean) => void}) {
  return (
    <label class="check">
      <input type="checkbox" checked={p.value} onChange={(e) => p.on(e.currentTarget.checked)} />
      {p.label}
    </label>
  );
}

// --- dialogs: the browser's own, which keeps the focus inside and closes by Escape ---

export function Dialog({title, onClose, children, wide}: {title: string; onClose: () => void; children: ComponentChildren; wide?: boolean}) {
  const ref = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = ref.current;
    if (dialog && !dialog.open) dialog.showModal();
    return () => dialog?.close();
  }, []);
  return (
    <dialog ref={ref} class={wide ? 'wide' : ''} aria-labelledby={id} onCancel={(e) => { e.preventDefault(); onClose(); }} onMouseDown={(e) => { if (e.target === ref.current) onClose(); }}>
      <div class="dialog-body">
        <header><h2 id={id}>{title}</h2><IconButton icon="close" label="Close" onClick={onClose} /></header>
        {children}
      </div>
    </dialog>
  );
}

interface Question {
  title: string;
  text: string;
  action: string;
  answer: (yes: boolean) => void;
}
const question = new Value<Question | null>(null);

export function confirm(title: string, text: string, action: string): Promise<boolean> {
  return new Promise((done) =>
    question.set({title, text, action, answer: (yes) => { question.set(null); done(yes); }}));
}

export function Questions() {
  const q = useValue(question);
  if (!q) return null;
  return (
    <Dialog title={q.title} onClose={() => q.answer(false)}>
      <p>{q.text}</p>
      <footer class="row end">
        <Button onClick={() => q.answer(false)}>Cancel</Button>
        <Button kind="danger" onClick={() => q.answer(true)}>{q.action}</Button>
      </footer>
    </Dialog>
  );
}

// --- short messages ---

interface Note {
  id: number;
  text: string;
  bad: boolean;
}
const notes = new Value<Note[]>([]);
let noteCount = 0;

export function tell(text: string, bad = false): void {
  const id = ++noteCount;
  notes.set([...notes.get(), {id, text, bad}].slice(-4));
  setTimeout(() => dismiss(id), bad ? 12000 : 4000);
}
const dismiss = (id: number): void => notes.set(notes.get().filter((n) => n.id !== id));

/** Runs it, and tells when it fails. True when it did not. */
export async function attempt(work: () => Promise<unknown>, done?: string): Promise<boolean> {
  try {
    await work();
    if (done) tell(done);
    return true;
  } catch (error) {
    tell((error as Error).message, true);
    return false;
  }
}

export function Notes() {
  return (
    <div class="notes" role="status" aria-live="polite">
      {useValue(notes).map((n) => (
        <div key={n.id} class={n.bad ? 'note bad' : 'note'}>
          <span>{n.text}</span>
          <IconButton icon="close" label="Dismiss" onClick={() => dismiss(n.id)} />
        </div>
      ))}
    </div>
  );
}

// --- layout ---

export function PageHead({title, about, children}: {title: ComponentChildren; about?: ComponentChildren; children?: ComponentChildren}) {
  return (
    <div class="page-head">
      <div><h1>{title}</h1>{about && <div class="about">{about}</div>}</div>
      <div class="row">{children}</div>
    </div>
  );
}

export function Card({title, children, actions, class: name = ''}: {title?: ComponentChildren; children: ComponentChildren; actions?: ComponentChildren; class?: string}) {
  return (
    <section class={`card ${name}`}>
      {(title || actions) && <header><h2>{title}</h2><div class="row">{actions}</div></header>}
      {children}
    </section>
  );
}

export function Empty({children, icon = 'box'}: {children: ComponentChildren; icon?: string}) {
  return <div class="empty"><Icon name={icon} /><div>{children}</div></div>;
}

export function Problem({error}: {error: Error | string | null | undefined}) {
  return error ? <div class="problem" role="alert">{typeof error === 'string' ? error : error.message}</div> : null;
}

export const Loading = () => <div class="loading" role="status"><span class="spinner" aria-hidden="true" />Loading</div>;

export interface Column<T> {
  name: string;
  cell: (row: T) => ComponentChildren;
  number?: boolean;
}

export function Table<T>({rows, columns, keyOf, label, actions}: {rows: T[]; columns: Column<T>[]; keyOf: (row: T) => string; label: string; actions?: (row: T) => ComponentChildren}) {
  return (
    <div class="table-frame" tabIndex={0} role="region" aria-label={label}>
      <table>
        <caption class="hidden">{label}</caption>
        <thead>
          <tr>{columns.map((c) => <th key={c.name} scope="col" class={c.number ? 'number' : ''}>{c.name}</th>)}{actions && <th scope="col"><span class="hidden">Actions</span></th>}</tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)}>
              {columns.map((c) => <td key={c.name} class={c.number ? 'number' : ''}>{c.cell(row)}</td>)}
              {actions && <td class="actions"><div class="row end">{actions(row)}</div></td>}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function Tabs({tabs, at, href}: {tabs: [string, string][]; at: string; href: (tab: string) => string}) {
  return (
    <nav class="tabs" aria-label="Parts of this sandbox">
      {tabs.map(([id, text]) => <a key={id} href={href(id)} aria-current={id === at ? 'page' : undefined}>{text}</a>)}
    </nav>
  );
}

/** The rows of a long list that can be seen, and room for the others. Rows are of one height. */
export function useWindow(count: number, rowPx: number) {
  const ref = useRef<HTMLDivElement>(null);
  const [seen, set] = useState({from: 0, to: 40});
  useEffect(() => {
    const frame = ref.current;
    if (!frame) return;
    const measure = (): void => {
      const from = Math.max(0, Math.floor(frame.scrollTop / rowPx) - 8);
      const to = from + Math.ceil(frame.clientHeight / rowPx) + 16;
      set((s) => (s.from === from && s.to === to ? s : {from, to}));
    };
    measure();
    frame.addEventListener('scroll', measure, {passive: true});
    const sizes = new ResizeObserver(measure);
    sizes.observe(frame);
    return () => {
      frame.removeEventListener('scroll', measure);
      sizes.disconnect();
    };
  }, [rowPx, count > 0]);
  const to = Math.min(count, seen.to);
  const from = Math.min(seen.from, Math.max(0, to - 1));
  return {ref, from, to, above: from * rowPx, below: Math.max(0, count - to) * rowPx};
}
