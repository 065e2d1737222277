// Streams of JSON objects in an answer: server-sent events, and execd's objects between empty lines.

/** Cuts text that comes in pieces into the JSON objects of its events. */
export class EventCutter {
  private rest = '';

  push(piece: string): unknown[] {
    this.rest += piece;
    const out: unknown[] = [];
    for (;;) {
      const at = this.rest.indexOf('\n\n');
      if (at < 0) return out;
      const block = this.rest.slice(0, at);
      this.rest = this.rest.slice(at + 2);
      const text = block
        .split('\n')
        .filter((line) => !line.startsWith(':') && !/^(event|id|retry):/.test(line))
        .map((line) => line.replace(/^data: ?/, ''))
        .join('\n')
        .trim();
      if (!text) continue;
      try {
        out.push(JSON.parse(text));
      } catch {
        // not an object of ours; the next one may be
      }
    }
  }
}

export async function readEvents<T>(answer: Response, each: (event: T) => void): Promise<void> {
  const reader = answer.body!.getReader();
  const decoder = new TextDecoder();
  const cutter = new EventCutter();
  for (;;) {
    const {done, value} = await reader.read();
    for (const event of cutter.push(done ? '\n\n' : decoder.decode(value, {stream: true}))) each(event as T);
    if (done) return;
  }
}
