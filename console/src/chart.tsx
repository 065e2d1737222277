// Line charts in SVG. Small, without a library; values are also given as text.
import {useId} from 'preact/hooks';

export interface Line {
  name: string;
  points: (number | null)[];
  tone?: number;
}

const W = 600;
const H = 140;

function path(points: (number | null)[], max: number, slots: number): string {
  let out = '';
  let pen = false;
  points.forEach((v, i) => {
    if (v === null) {
      pen = false;
      return;
    }
    const x = slots > 1 ? ((slots - points.length + i) / (slots - 1)) * W : W;
    out += `${pen ? 'L' : 'M'}${x.toFixed(1)} ${(H - (Math.min(v, max) / max) * (H - 4)).toFixed(1)}`;
    pen = true;
  });
  return out;
}

function niceMax(v: number): number {
  if (v <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(v));
  return [1, 2, 5, 10].map((m) => m * power).find((m) => m >= v) ?? v;
}

export function Chart({title, lines, format, max, slots = 60}: {title: string; lines: Line[]; format: (v: number) => string; max?: number; slots?: number}) {
  const id = useId();
  const top = max ?? niceMax(Math.max(0, ...lines.flatMap((l) => l.points.map((p) => p ?? 0))));
  const last = (l: Line): string => {
    const v = l.points[l.points.length - 1];
    return v === null || v === undefined ? '–' : format(v);
  };
  return (
    <figure class="chart">
      <figcaption id={id}>
        <span class="chart-title">{title}</span>
        {lines.map((l, i) => (
          <span key={l.name} class="legend"><i class={`tone-${l.tone ?? i}`} aria-hidden="true" />{l.name} <b>{last(l)}</b></span>
        ))}
      </figcaption>
      <div class="plot">
        <svg viewBox={`0 0 ${W} ${H}`} preserveAspectRatio="none" role="img" aria-labelledby={id}>
          {[0.25, 0.5, 0.75].map((f) => <path key={f} class="grid" d={`M0 ${H * f}H${W}`} />)}
          {lines.map((l, i) => <path key={l.name} class={`line tone-${l.tone ?? i}`} d={path(l.points, top, slots)} />)}
        </svg>
        <span class="axis top" aria-hidden="true">{format(top)}</span>
        <span class="axis bottom" aria-hidden="true">{format(0)}</span>
      </div>
    </figure>
  );
}

export function Meter({label, value, max, text, fullIsGood}: {label: string; value: number; max: number; text: string; fullIsGood?: boolean}) {
  const part = max > 0 ? Math.min(1, value / max) : 0;
  return (
    <div class="meter">
      <div class="row spread"><span>{label}</span><b>{text}</b></div>
      <svg viewBox="0 0 100 4" preserveAspectRatio="none" role="img" aria-label={`${label}: ${text}`}>
        <rect class="meter-back" width="100" height="4" />
        <rect class={part > 0.9 && !fullIsGood ? 'meter-bad' : 'meter-fill'} width={part * 100} height="4" />
      </svg>
    </div>
  );
}
