// State that pages share: the list of sandboxes, kept up to date, and whether the server answers.
import {useEffect, useState} from 'preact/hooks';
import * as api from './api';
import {readEvents} from './stream';
import type {Sandbox} from './types';

const POLL_MS = 3000;
const POLL_LARGE_MS = 10000; // of a list of many pages
const QUIET_MS = 250; // changes that come together make one request

type Listener = () => void;

export class Value<T> {
  private listeners = new Set<Listener>();
  constructor(private now: T) {}
  get(): T {
    return this.now;
  }
  set(next: T): void {
    if (Object.is(next, this.now)) return;
    this.now = next;
    this.listeners.forEach((run) => run());
  }
  watch(run: Listener): () => void {
    this.listeners.add(run);
    return () => this.listeners.delete(run);
  }
}

export function useValue<T>(value: Value<T>): T {
  const [, again] = useState(0);
  useEffect(() => value.watch(() => again((n) => n + 1)), [value]);
  return value.get();
}

export const sandboxes = new Value<Sandbox[] | null>(null);
export const problem = new Value<string | null>(null);
export const online = new Value(true);
/** How the list is kept up to date: by events of the server, or by asking again. */
export const mode = new Value<'events' | 'polling'>('polling');
export const now = new Value(Date.now());
export const features = new Value<Record<string, boolean>>({});
/** The role of the key; servers without roles let every key do everything. The server decides: the
 * console only leaves out what it would refuse. */
export const role = new Value('admin');
/** Whether that is for all tenants: only then the server tells its figures, and takes changes of what
 * belongs to no tenant. null until the server said. */
export const everywhere = new Value<boolean | null>(null);
/** Who this is: the user, or the name of the key; "" when the server does not say. */
export const who = new Value('');
export const useCan = (): {write: boolean; admin: boolean; all: boolean} => {
  const now = useValue(role);
  const all = useValue(everywhere);
  return {write: now !== 'read_only', admin: now === 'admin', all: now === 'admin' && all !== false};
};

let stop: (() => void) | null = null;
let wake: (() => void) | null = null; // ends the pause between two requests for the list
let stale = false; // something changed since the last request began

/** Asks for the list soon, as something changed. */
export function refresh(): void {
  stale = true;
  wake?.();
}

async function load(): Promise<void> {
  stale = false;
  const list = await api.all<Sandbox>('/v1/sandboxes');
  const before = sandboxes.get();
  if (!before || JSON.stringify(before) !== JSON.stringify(list)) sandboxes.set(list);
  problem.set(null);
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((done) => {
    const end = (): void => {
      clearTimeout(timer);
      if (wake === soon) wake = null;
      done();
    };
    const soon = (): void => {
      wake = null;
      clearTimeout(timer);
      timer = setTimeout(end, QUIET_MS);
    };
    let timer = setTimeout(end, stale ? QUIET_MS : ms);
    wake = stale ? null : soon;
    signal.addEventListener('abort', end, {once: true});
  });
}

async function keepList(signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    try {
      await load();
    } catch (error) {
      problem.set((error as Error).message);
    }
    const large = (sandboxes.get()?.length ?? 0) > 400;
    await pause(mode.get() === 'events' ? 30000 : large ? POLL_LARGE_MS : POLL_MS, signal);
  }
}

export interface ServerEvent {
  type?: string;
  sandboxId?: string;
}
const eventListeners = new Set<(e: ServerEvent) => void>();
export function whenEvent(run: (e: ServerEvent) => void): () => void {
  eventListeners.add(run);
  return () => eventListeners.delete(run);
}

/** Follows the events of the server, when it has such a route. Reconnects until it is stopped. */
async function followEvents(signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    try {
      const answer = await api.call('/v1/events', {signal, patient: true, headers: {Accept: 'text/event-stream'}});
      if (!(answer.headers.get('content-type') ?? '').startsWith('text/event-stream')) return;
      mode.set('events');
      refresh();
      await readEvents<ServerEvent>(answer, (e) => {
        refresh();
        eventListeners.forEach((run) => run(e));
      });
    } catch (error) {
      if (error instanceof api.ApiError && [403, 404, 405, 501].includes(error.status)) {
        mode.set('polling');
        return;
      }
    }
    mode.set('polling');
    await new Promise((done) => setTimeout(done, 1000));
  }
}

async function findFeatures(): Promise<void> {
  const paths = {
    images: '/v1/images',
    volumes: '/v1/volumes',
    pools: '/v1/pools',
    keys: '/v1/keys',
    tenants: '/v1/tenants',
    audit: '/v1/audit',
    whoami: '/v1/whoami',
  };
  const found = await Promise.all(Object.entries(paths).map(async ([name, path]) => [name, await api.has(path)] as const));
  const me = found.find(([name]) => name === 'whoami')?.[1] ? await api.get<{role?: string; user?: string; name?: string; allTenants?: boolean}>('/v1/whoami').catch(() => null) : null;
  role.set(me?.role ?? 'admin');
  everywhere.set(me?.allTenants ?? true);
  who.set(me?.user ?? me?.name ?? '');
  features.set(Object.fromEntries(found));
}

export function start(): void {
  stop?.();
  const control = new AbortController();
  const ticking = setInterval(() => now.set(Date.now()), 1000);
  const contact = api.whenContact((reached) => {
    if (reached && !online.get()) void findFeatures();
    online.set(reached);
  });
  stop = () => {
    control.abort();
    clearInterval(ticking);
    contact();
    sandboxes.set(null);
    everywhere.set(null);
    who.set('');
  };
  void keepList(control.signal);
  void followEvents(control.signal);
  void findFeatures();
}

export function end(): void {
  stop?.();
  stop = null;
}

/** The result of a call, asked for again every `ms`, when `again` is called, and when `deps` change. */
export function usePolled<T>(ask: (signal: AbortSignal) => Promise<T>, ms: number, deps: unknown[]) {
  const [state, set] = useState<{data: T | null; error: Error | null}>({data: null, error: null});
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    const control = new AbortController();
    let timer = 0;
    const round = async (): Promise<void> => {
      try {
        const data = await ask(control.signal);
        if (!control.signal.aborted) set({data, error: null});
      } catch (error) {
        if (!control.signal.aborted) set((s) => ({data: s.data, error: error as Error}));
      }
      if (!control.signal.aborted && ms > 0) timer = window.setTimeout(round, ms);
    };
    void round();
    return () => {
      control.abort();
      clearTimeout(timer);
    };
  }, [...deps, turn]);
  return {...state, again: () => setTurn((n) => n + 1)};
}
