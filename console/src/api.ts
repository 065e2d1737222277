// Calls to the server. The key is held in sessionStorage: it ends with the tab, and is in no address.
// A user who signed in has no key here: the browser holds a cookie that scripts cannot read.
import {readEvents} from './stream';
import type {Page} from './types';

const KEY_HEADER = 'OPEN-SANDBOX-API-KEY';
/** Without it the server takes no cookie: a page of another origin cannot send it. */
const CONSOLE_HEADER = 'X-OpenSandbox-Console';
const STORED = 'opensandbox.key';
const SECONDS_MAX = 60;

export const EXECD_PORT = 44772;
export const EGRESS_PORT = 18080;

export class ApiError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(message);
  }
}

let key: string | null = sessionStorage.getItem(STORED);
const onRefused = new Set<() => void>();
const onContact = new Set<(reached: boolean) => void>();

let session = false; // a user signed in

export const hasKey = (): boolean => key !== null;
export const hasSession = (): boolean => session;

export function setSession(signedIn: boolean): void {
  session = signedIn;
  tokens.clear();
}

export function setKey(value: string | null): void {
  key = value;
  tokens.clear();
  if (value === null) sessionStorage.removeItem(STORED);
  else sessionStorage.setItem(STORED, value);
}

/** Called when the server no longer takes the key. */
export function whenRefused(run: () => void): () => void {
  onRefused.add(run);
  return () => onRefused.delete(run);
}

/** Called with whether the server could be reached, after each call. */
export function whenContact(run: (reached: boolean) => void): () => void {
  onContact.add(run);
  return () => onContact.delete(run);
}

export interface Call {
  method?: string;
  query?: Record<string, string | number | string[] | undefined>;
  json?: unknown;
  body?: BodyInit;
  headers?: Record<string, string>;
  signal?: AbortSignal;
  /** No limit of time: a stream, an upload. */
  patient?: boolean;
}

function address(path: string, query: Call['query']): string {
  const q = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {}))
    if (Array.isArray(value)) value.forEach((v) => q.append(name, v));
    else if (value !== undefined) q.set(name, String(value));
  const text = q.toString();
  return text ? `${path}?${text}` : path;
}

async function failure(answer: Response): Promise<ApiError> {
  const text = await answer.text().catch(() => '');
  try {
    const {code, message} = JSON.parse(text) as {code?: string; message?: string};
    if (message) return new ApiError(answer.status, code ?? '', message);
  } catch {
    // the egress API answers with a line of text
  }
  return new ApiError(answer.status, '', text.trim().slice(0, 300) || `the server answered ${answer.status}`);
}

export async function call(path: string, c: Call = {}): Promise<Response> {
  const headers: Record<string, string> = {...c.headers};
  if (key) headers[KEY_HEADER] = key;
  else if (session) headers[CONSOLE_HEADER] = '1';
  if (c.json !== undefined) headers['Content-Type'] = 'application/json';
  const limit = c.patient ? undefined : AbortSignal.timeout(SECONDS_MAX * 1000);
  const signal = c.signal && limit ? anySignal(c.signal, limit) : (c.signal ?? limit);
  let answer: Response;
  try {
    answer = await fetch(address(path, c.query), {
      method: c.method ?? 'GET',
      headers,
      body: c.json !== undefined ? JSON.stringify(c.json) : c.body,
      signal,
      credentials: session ? 'same-origin' : 'omit',
      cache: 'no-store',
      redirect: 'error',
    });
  } catch (error) {
    if (c.signal?.aborted) throw error;
    onContact.forEach((run) => run(false));
    throw new ApiError(0, 'UNREACHABLE', 'the server cannot be reached');
  }
  onContact.forEach((run) => run(true));
  if (answer.ok) return answer;
  const error = await failure(answer);
  if (answer.status === 401 && path.startsWith('/v1/') && !path.includes('/proxy/')) onRefused.forEach((run) => run());
  throw error;
}

function anySignal(a: AbortSignal, b: AbortSignal): AbortSignal {
  const both = new AbortController();
  for (const s of [a, b])
    if (s.aborted) both.abort(s.reason);
    else s.addEventListener('abort', () => both.abort(s.reason), {once: true});
  return both.signal;
}

export async function get<T>(path: string, query?: Call['query'], signal?: AbortSignal): Promise<T> {
  return (await call(path, {query, signal})).json() as Promise<T>;
}

export async function send<T>(method: string, path: string, json?: unknown): Promise<T> {
  const answer = await call(path, {method, json});
  const text = await answer.text();
  return (text ? JSON.parse(text) : undefined) as T;
}

const PAGE = 200;
const PAGES_MAX = 50;

/** All items of a list, by pages of the largest size. */
export async function all<T>(path: string, query: Call['query'] = {}): Promise<T[]> {
  const first = await get<Page<T>>(path, {...query, page: 1, pageSize: PAGE});
  const pages = Math.min(first.pagination?.totalPages ?? 1, PAGES_MAX);
  const more = await Promise.all(
    Array.from({length: Math.max(0, pages - 1)}, (_, i) =>
      get<Page<T>>(path, {...query, page: i + 2, pageSize: PAGE}),
    ),
  );
  return [first, ...more].flatMap((p) => p.items);
}

/** Whether a key is one of the server's. */
export async function tryKey(candidate: string): Promise<void> {
  const answer = await fetch('/v1/sandboxes?pageSize=1', {
    headers: candidate ? {[KEY_HEADER]: candidate} : {},
    credentials: 'omit',
    cache: 'no-store',
    signal: AbortSignal.timeout(SECONDS_MAX * 1000),
  }).catch(() => {
    throw new ApiError(0, 'UNREACHABLE', 'the server cannot be reached');
  });
  if (!answer.ok) throw await failure(answer);
}

export interface SignIn {
  signedIn: boolean;
  /** Where users sign in, and what that is called; absent where they do not. */
  signIn?: {name: string; path: string};
}

/** Whether somebody is signed in, and can be. Older servers have no such route. */
export async function askSession(): Promise<SignIn> {
  const answer = await fetch('/auth/session', {
    headers: {[CONSOLE_HEADER]: '1'},
    credentials: 'same-origin',
    cache: 'no-store',
    signal: AbortSignal.timeout(SECONDS_MAX * 1000),
  }).catch(() => null);
  return answer?.ok ? ((await answer.json()) as SignIn) : {signedIn: false};
}

/** Ends the session at the server. */
export async function signOut(): Promise<void> {
  if (session) await call('/auth/logout', {method: 'POST'}).catch(() => undefined);
  setSession(false);
}

/** Whether the server has a route that older ones lack. A refusal by role means that it has. */
export async function has(path: string): Promise<boolean> {
  try {
    await call(path, {query: {pageSize: 1}});
    return true;
  } catch (error) {
    return error instanceof ApiError && error.status !== 404 && error.status !== 501 && error.status !== 403;
  }
}

// --- into a sandbox ---

export const inside = (id: string, port = EXECD_PORT): string => `/v1/sandboxes/${encodeURIComponent(id)}/proxy/${port}`;

const tokens = new Map<string, string>();

/** The sandbox's token, for what cannot carry the key. */
async function token(id: string): Promise<string> {
  const known = tokens.get(id);
  if (known !== undefined) return known;
  const {headers} = await get<{headers?: Record<string, string>}>(`/v1/sandboxes/${id}/endpoints/${EXECD_PORT}`, {
    use_server_proxy: 'true',
  });
  const found = headers?.['OpenSandbox-Secure-Access'] ?? '';
  tokens.set(id, found);
  return found;
}

/** A WebSocket into a sandbox. A browser sets no headers there: the token goes as a subprotocol. */
export async function socket(id: string, path: string, port = EXECD_PORT): Promise<WebSocket> {
  const secret = await token(id);
  const scheme = location.protocol === 'https:' ? 'wss' : 'ws';
  const offers = secret ? ['opensandbox.v1', `opensandbox.token.${secret}`] : [];
  return new WebSocket(`${scheme}://${location.host}${inside(id, port)}${path}`, offers);
}

export interface Output {
  stdout: string;
  stderr: string;
  status: number;
}

/** Runs a command to its end. */
export async function run(id: string, command: string, timeoutMs = 20000): Promise<Output> {
  const answer = await call(`${inside(id)}/command`, {method: 'POST', json: {command, timeout: timeoutMs}});
  const out: Output = {stdout: '', stderr: '', status: 0};
  await readEvents<{type: string; text?: string; error?: {evalue: string}}>(answer, (e) => {
    if (e.type === 'stdout') out.stdout += `${e.text ?? ''}\n`;
    else if (e.type === 'stderr') out.stderr += `${e.text ?? ''}\n`;
    else if (e.type === 'error') out.status = Number(e.error?.evalue ?? -1);
  });
  return out;
}

export const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
