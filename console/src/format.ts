// Numbers, times and names as people read them. Pure: no page, no clock but the one that is given.
import type {Tenant} from './types';

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

export function bytes(n: number | null | undefined): string {
  if (n === null || n === undefined || !Number.isFinite(n)) return '–';
  let at = 0;
  while (n >= 1024 && at < UNITS.length - 1) {
    n /= 1024;
    at++;
  }
  return `${at === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)} ${UNITS[at]}`;
}

export interface Amount {
  name: string;
  used: number;
  limit: number | null;
  text: string;
}

/** What a tenant has of each kind that its quota can bound. */
export function amounts(t: Tenant): Amount[] {
  const rows: [string, string, number, (n: number) => string][] = [
    ['Sandboxes', 'sandboxes', t.usage.sandboxes, String],
    ['CPU', 'cpu', t.usage.cpuMillicores / 1000, String],
    ['Memory', 'memory', t.usage.memoryBytes, bytes],
    ['Disk', 'disk', t.usage.diskBytes, bytes],
  ];
  return rows.map(([name, kind, used, text]) => {
    const given = t.quota[kind];
    const value = parseFloat(String(given));
    const limit = given === null || given === undefined ? null : String(given).endsWith('m') ? value / 1000 : value;
    return {name, used, limit, text: limit === null ? `${text(used)}, no limit` : `${text(used)} of ${text(limit)}`};
  });
}

export function duration(seconds: number): string {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60 ? `${s % 60} s` : ''}`.trim();
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

export function ago(time: string | undefined, now: number): string {
  if (!time) return '–';
  const s = (now - Date.parse(time)) / 1000;
  if (!Number.isFinite(s)) return '–';
  return s < 5 ? 'now' : `${short(s)} ago`;
}

export function until(time: string | undefined, now: number): string {
  if (!time) return 'never';
  const s = (Date.parse(time) - now) / 1000;
  if (!Number.isFinite(s)) return '–';
  return s <= 0 ? 'due' : `in ${short(s)}`;
}

function short(s: number): string {
  if (s < 60) return `${Math.round(s)} s`;
  if (s < 3600) return `${Math.round(s / 60)} min`;
  if (s < 86400) return `${Math.round(s / 3600)} h`;
  return `${Math.round(s / 86400)} d`;
}

export function millis(seconds: number | null): string {
  if (seconds === null || !Number.isFinite(seconds)) return '–';
  const ms = seconds * 1000;
  return ms < 10 ? `${ms.toFixed(1)} ms` : ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

export function clock(time: string | number | undefined): string {
  const d = new Date(time ?? NaN);
  return Number.isNaN(d.getTime()) ? '–' : d.toISOString().replace('T', ' ').slice(0, 19) + 'Z';
}

export const shortId = (id: string): string => (id.length > 13 ? id.slice(0, 8) : id);

/** "a=b" lines to a map. The first line that is none is told. */
export function pairs(text: string): Record<string, string> {
  const out: Record<string, string> = {};
  for (const line of text.split('\n')) {
    const one = line.trim();
    if (!one) continue;
    const at = one.indexOf('=');
    if (at < 1) throw new Error(`"${one}" is not NAME=VALUE`);
    out[one.slice(0, at).trim()] = one.slice(at + 1);
  }
  return out;
}

/** Splits a command line as a shell would: blanks, quotes, backslashes; nothing is expanded. */
export function words(line: string): string[] {
  const out: string[] = [];
  let now = '';
  let open = false;
  let quote = '';
  for (let i = 0; i < line.length; i++) {
    const c = line[i]!;
    if (quote) {
      if (c === quote) quote = '';
      else if (c === '\\' && quote === '"' && i + 1 < line.length && '"\\$`'.includes(line[i + 1]!)) now += line[++i];
      else now += c;
    } else if (c === '"' || c === "'") {
      quote = c;
      open = true;
    } else if (c === '\\' && i + 1 < line.length) {
      now += line[++i];
      open = true;
    } else if (/\s/.test(c)) {
      if (open) out.push(now);
      now = '';
      open = false;
    } else {
      now += c;
      open = true;
    }
  }
  if (quote) throw new Error(`a quote ${quote} is not closed`);
  if (open) out.push(now);
  return out;
}

export function joinPath(folder: string, name: string): string {
  return `${folder.replace(/\/+$/, '')}/${name}`;
}

export function parentPath(path: string): string {
  return path.replace(/\/+$/, '').replace(/\/[^/]*$/, '') || '/';
}

export const baseName = (path: string): string => path.replace(/\/+$/, '').split('/').pop() || '/';

/** "rw-r--r--" of a mode whose decimal digits are octal ones. */
export function modeText(mode: number): string {
  const digits = String(mode).padStart(3, '0').slice(-3);
  return [...digits].map((d) => 'rwx'.split('').map((l, i) => (Number(d) & (4 >> i) ? l : '-')).join('')).join('');
}
