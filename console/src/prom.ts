// Reads Prometheus' text format, as far as this server writes it.

export interface Sample {
  name: string;
  labels: Record<string, string>;
  value: number;
}

const LINE = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)$/;
const LABEL = /([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"/g;

export function parseMetrics(text: string): Sample[] {
  const out: Sample[] = [];
  for (const line of text.split('\n')) {
    const m = line.startsWith('#') ? null : LINE.exec(line);
    if (!m) continue;
    const labels: Record<string, string> = {};
    for (const [, name, value] of (m[2] ?? '').matchAll(LABEL))
      labels[name!] = value!.replace(/\\(.)/g, (_, c: string) => (c === 'n' ? '\n' : c));
    out.push({name: m[1]!, labels, value: Number(m[3] === '+Inf' ? Infinity : m[3])});
  }
  return out;
}

export function sum(samples: Sample[], name: string, where: Record<string, string> = {}): number {
  let total = 0;
  for (const s of samples)
    if (s.name === name && Object.entries(where).every(([k, v]) => s.labels[k] === v)) total += s.value;
  return total;
}

export interface Bucket {
  le: number;
  count: number;
}

/** A histogram's buckets, summed over series whose labels fit, in order. */
export function buckets(samples: Sample[], name: string, fits: (l: Record<string, string>) => boolean = () => true): Bucket[] {
  const found = new Map<number, number>();
  for (const s of samples)
    if (s.name === `${name}_bucket` && fits(s.labels)) {
      const le = s.labels['le'] === '+Inf' ? Infinity : Number(s.labels['le']);
      found.set(le, (found.get(le) ?? 0) + s.value);
    }
  return [...found].map(([le, count]) => ({le, count})).sort((a, b) => a.le - b.le);
}

export function minus(now: Bucket[], before: Bucket[]): Bucket[] {
  const old = new Map(before.map((b) => [b.le, b.count]));
  return now.map((b) => ({le: b.le, count: b.count - (old.get(b.le) ?? 0)}));
}

/** The q-quantile, linear inside its bucket; null without observations. */
export function quantile(rows: Bucket[], q: number): number | null {
  const total = rows.length ? rows[rows.length - 1]!.count : 0;
  if (total <= 0) return null;
  const rank = q * total;
  let low = 0;
  let under = 0;
  for (const {le, count} of rows) {
    if (count >= rank) {
      if (!Number.isFinite(le)) return low;
      return count === under ? le : low + ((le - low) * (rank - under)) / (count - under);
    }
    low = le;
    under = count;
  }
  return low;
}
