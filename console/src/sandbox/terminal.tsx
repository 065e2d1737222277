// A terminal: xterm.js over the WebSocket of a PTY. The shell outlives the connection, and so the
// page: its id is kept in the tab, and what was printed meanwhile is replayed.
import {FitAddon} from '@xterm/addon-fit';
import {Terminal} from '@xterm/xterm';
import '@xterm/xterm/css/xterm.css';
import {useEffect, useRef, useState} from 'preact/hooks';
import * as api from '../api';
import {Button} from '../ui';

const AGAIN_MS = 1500;
const FRAME = {input: 0, output: 1, stderr: 2, replay: 3};

/** xterm writes its colours into <style> elements, which the page's policy forbids. Style sheets that
 * are made by script are allowed: this document hands out elements that put their text there. */
function strictDocument(): Document {
  const element = (tag: string): HTMLElement => {
    if (tag !== 'style') return document.createElement(tag);
    const made = document.createElement('span');
    made.hidden = true;
    const sheet = new CSSStyleSheet();
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
    Object.defineProperty(made, 'textContent', {set: (text: string) => sheet.replaceSync(text), get: () => ''});
    made.remove = () => {
      document.adoptedStyleSheets = document.adoptedStyleSheets.filter((s) => s !== sheet);
      HTMLElement.prototype.remove.call(made);
    };
    return made;
  };
  return new Proxy(document, {
    get(target, name) {
      if (name === 'createElement') return element;
      const value = Reflect.get(target, name, target) as unknown;
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });
}

const theme = (): Record<string, string> => ({background: '#0d1420', foreground: '#dbe4f3', cursor: '#8fb4ff', selectionBackground: '#35507f'});

async function session(id: string, fresh: boolean): Promise<string> {
  const place = `opensandbox.pty.${id}`;
  const kept = sessionStorage.getItem(place);
  if (kept && !fresh) {
    const known = await api.call(`${api.inside(id)}/pty/${kept}`).then(() => true, (e: api.ApiError) => {
      if (e.status === 404) return false;
      throw e;
    });
    if (known) return kept;
  }
  const {session_id} = await api.send<{session_id: string}>('POST', `${api.inside(id)}/pty`, {});
  sessionStorage.setItem(place, session_id);
  return session_id;
}

type Phase = 'connecting' | 'open' | 'lost' | 'ended' | 'taken';
const WORDS: Record<Phase, string> = {
  connecting: 'Connecting',
  open: 'Connected',
  lost: 'Connection lost; trying again',
  ended: 'The shell has ended',
  taken: 'Another window took over',
};

export function TerminalTab({id}: {id: string}) {
  const box = useRef<HTMLDivElement>(null);
  const [phase, setPhase] = useState<Phase>('connecting');
  const [turn, setTurn] = useState({n: 0, fresh: false});

  useEffect(() => {
    const term = new Terminal({
      documentOverride: strictDocument(),
      fontFamily: 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace',
      fontSize: 14,
      scrollback: 5000,
      cursorBlink: false,
      theme: theme(),
      screenReaderMode: true,
    });
    const fit = new FitAddon();
    term.loadAddon(fit);
    term.open(box.current!);
    let ws: WebSocket | null = null;
    let over = false;
    let printed = 0; // bytes of output so far: where a replay begins
    let timer = 0;
    const encoder = new TextEncoder();

    const resize = (): void => {
      try {
        fit.fit();
      } catch {
        return; // not visible yet
      }
      if (ws?.readyState === WebSocket.OPEN) ws.send(JSON.stringify({type: 'resize', cols: term.cols, rows: term.rows}));
    };
    const write = (text: Uint8Array): void => {
      printed += text.length;
      term.write(text);
    };
    const onFrame = (bytes: Uint8Array): void => {
      if (bytes[0] === FRAME.output || bytes[0] === FRAME.stderr) write(bytes.subarray(1));
      else if (bytes[0] === FRAME.replay) {
        printed = Number(new DataView(bytes.buffer, bytes.byteOffset + 1, 8).getBigUint64(0));
        write(bytes.subarray(9));
      }
    };
    const again = (): void => {
      if (!over) timer = window.setTimeout(() => void connect(), AGAIN_MS);
    };
    const connect = async (): Promise<void> => {
      try {
        const pty = await session(id, turn.fresh && printed === 0);
        if (over) return;
        ws = await api.socket(id, `/pty/${pty}/ws?takeover=1&since=${printed}`);
      } catch {
        if (!over) setPhase('lost');
        return again();
      }
      ws.binaryType = 'arraybuffer';
      ws.onopen = () => {
        setPhase('open');
        resize();
        term.focus();
      };
      ws.onmessage = (e: MessageEvent<string | ArrayBuffer>) => {
        if (typeof e.data !== 'string') return onFrame(new Uint8Array(e.data));
        const text = JSON.parse(e.data) as {type: string; exit_code?: number};
        if (text.type === 'exit') {
          term.write(`\r\n[the shell ended with status ${text.exit_code}]\r\n`);
          setPhase('ended');
          over = true;
        }
      };
      ws.onclose = (e) => {
        if (e.code === 4001) {
          over = true;
          setPhase('taken');
        } else if (!over) {
          setPhase('lost');
          again();
        }
      };
    };
    const keys = term.onData((text) => {
      if (ws?.readyState !== WebSocket.OPEN) return;
      const body = encoder.encode(text);
      const frame = new Uint8Array(body.length + 1);
      frame[0] = FRAME.input;
      frame.set(body, 1);
      ws.send(frame);
    });
    // The server cuts a client that says nothing for a minute.
    const alive = setInterval(() => {
      if (ws?.readyState === WebSocket.OPEN) ws.send('{"type":"ping"}');
    }, 20000);
    const sizes = new ResizeObserver(resize);
    sizes.observe(box.current!);
    void connect();
    return () => {
      over = true;
      clearTimeout(timer);
      clearInterval(alive);
      sizes.disconnect();
      keys.dispose();
      ws?.close();
      term.dispose();
    };
  }, [id, turn]);

  return (
    <div class="terminal-tab">
      <div class="row spread">
        <span class="about" role="status">{WORDS[phase]}</span>
        <div class="row">
          {(phase === 'ended' || phase === 'taken') && <Button onClick={() => { setPhase('connecting'); setTurn({n: turn.n + 1, fresh: phase === 'ended'}); }}>Connect again</Button>}
          <Button onClick={() => { setPhase('connecting'); setTurn({n: turn.n + 1, fresh: true}); }}>New shell</Button>
        </div>
      </div>
      <div class="terminal" ref={box} />
    </div>
  );
}
