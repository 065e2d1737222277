// Files of a sandbox: look, upload by dropping, edit, download, remove.
import {useEffect, useRef, useState} from 'preact/hooks';
import * as api from '../api';
import {baseName, bytes, clock, joinPath, modeText, parentPath} from '../format';
import {usePolled} from '../live';
import type {FileInfo} from '../types';
import {attempt, Button, confirm, Dialog, Empty, Icon, IconButton, Loading, Problem, Table, tell, TextField} from '../ui';

const EDIT_BYTES_MAX = 1 << 20;
const ICON = {file: 'file', directory: 'folder', symlink: 'link', other: 'settings'};

async function upload(id: string, folder: string, files: File[]): Promise<void> {
  const form = new FormData();
  for (const file of files) {
    form.append('metadata', new Blob([JSON.stringify({path: joinPath(folder, file.name)})], {type: 'application/json'}), 'metadata');
    form.append('file', file, file.name);
  }
  await api.call(`${api.inside(id)}/files/upload`, {method: 'POST', body: form, patient: true});
}

function save(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

async function download(id: string, f: FileInfo): Promise<void> {
  const folder = f.type === 'directory';
  const answer = await api.call(`${api.inside(id)}/${folder ? 'directories' : 'files'}/download`, {query: {path: f.path}, patient: true});
  save(await answer.blob(), baseName(f.path) + (folder ? '.tar' : ''));
}

export function Files({id}: {id: string}) {
  const [folder, setFolder] = useState(() => sessionStorage.getItem(`opensandbox.folder.${id}`) ?? '/');
  const [over, setOver] = useState(false);
  const [busy, setBusy] = useState(false);
  const [open, setOpen] = useState<FileInfo | null>(null);
  const [naming, setNaming] = useState<'folder' | 'file' | FileInfo | null>(null);
  const picker = useRef<HTMLInputElement>(null);
  const {data, error, again} = usePolled(() => api.get<FileInfo[]>(`${api.inside(id)}/directories/list`, {path: folder, depth: 1}), 5000, [id, folder]);

  const go = (path: string): void => {
    sessionStorage.setItem(`opensandbox.folder.${id}`, path);
    setFolder(path);
  };
  const put = async (files: File[]): Promise<void> => {
    if (!files.length) return;
    setBusy(true);
    await attempt(() => upload(id, folder, files), files.length === 1 ? `${files[0]!.name} is uploaded.` : `${files.length} files are uploaded.`);
    setBusy(false);
    again();
  };
  const remove = async (f: FileInfo): Promise<void> => {
    if (!(await confirm('Delete', `${f.path} will be gone.`, 'Delete'))) return;
    const route = f.type === 'directory' ? 'directories' : 'files';
    await attempt(async () => { await api.call(`${api.inside(id)}/${route}`, {method: 'DELETE', query: {path: f.path}}); });
    again();
  };
  const rows = [...(data ?? [])].filter((f) => f.path !== folder).sort((a, b) => Number(b.type === 'directory') - Number(a.type === 'directory') || a.path.localeCompare(b.path));
  const crumbs = folder === '/' ? [] : folder.slice(1).split('/');

  return (
    <div class={over ? 'dropping drop' : 'drop'}
      onDragOver={(e) => { e.preventDefault(); setOver(true); }}
      onDragLeave={(e) => { if (e.target === e.currentTarget) setOver(false); }}
      onDrop={(e) => { e.preventDefault(); setOver(false); void put([...(e.dataTransfer?.files ?? [])]); }}>
      <div class="toolbar">
        <nav class="crumbs" aria-label="Folder">
          <button type="button" class="linklike" onClick={() => go('/')}>/</button>
          {crumbs.map((name, i) => <span key={i}><button type="button" class="linklike" onClick={() => go('/' + crumbs.slice(0, i + 1).join('/'))}>{name}</button>{i < crumbs.length - 1 && ' / '}</span>)}
        </nav>
        <IconButton icon="up" label="Folder above" disabled={folder === '/'} onClick={() => go(parentPath(folder))} />
        <Button icon="plus" onClick={() => setNaming('file')}>File</Button>
        <Button icon="plus" onClick={() => setNaming('folder')}>Folder</Button>
        <Button icon="upload" busy={busy} onClick={() => picker.current?.click()}>Upload</Button>
        <input ref={picker} type="file" multiple hidden aria-label="Files to upload" onChange={(e) => { const t = e.currentTarget; void put([...(t.files ?? [])]); t.value = ''; }} />
      </div>
      <Problem error={error} />
      {!data ? !error && <Loading /> : rows.length === 0 ? <Empty icon="folder">This folder is empty. Drop files here to upload them.</Empty>
        : <Table label={`Files of ${folder}`} rows={rows} keyOf={(f) => f.path} columns={[
            {name: 'Name', cell: (f) => <button type="button" class="linklike name" onClick={() => (f.type === 'directory' ? go(f.path) : setOpen(f))}><Icon name={ICON[f.type]} />{baseName(f.path)}</button>},
            {name: 'Size', number: true, cell: (f) => (f.type === 'directory' ? '–' : bytes(f.size))},
            {name: 'Changed', cell: (f) => <span class="nowrap">{clock(f.modified_at)}</span>},
            {name: 'Owner', cell: (f) => `${f.owner}:${f.group}`},
            {name: 'Mode', cell: (f) => <code>{modeText(f.mode)}</code>},
          ]} actions={(f) => (
            <>
              <IconButton icon="download" label={`Download ${baseName(f.path)}`} onClick={() => void attempt(() => download(id, f))} />
              <Button kind="quiet" onClick={() => setNaming(f)} aria-label={`Rename ${baseName(f.path)}`}>Rename</Button>
              <IconButton icon="trash" label={`Delete ${baseName(f.path)}`} onClick={() => void remove(f)} />
            </>
          )} />}
      {over && <div class="drop-hint">Drop to upload into {folder}</div>}
      {open && <Editor id={id} file={open} onClose={() => { setOpen(null); again(); }} />}
      {naming && <NameDialog id={id} folder={folder} what={naming} onClose={() => { setNaming(null); again(); }} />}
    </div>
  );
}

function NameDialog({id, folder, what, onClose}: {id: string; folder: string; what: 'folder' | 'file' | FileInfo; onClose: () => void}) {
  const old = typeof what === 'object' ? what : null;
  const [name, setName] = useState(old ? baseName(old.path) : '');
  const finish = async (): Promise<void> => {
    const path = joinPath(folder, name.trim());
    const ok = await attempt(async () => {
      if (old) await api.call(`${api.inside(id)}/files/mv`, {method: 'POST', json: [{src: old.path, dest: path}]});
      else if (what === 'folder') await api.call(`${api.inside(id)}/directories`, {method: 'POST', json: {[path]: {mode: 755}}});
      else await upload(id, folder, [new File([''], name.trim())]);
    });
    if (ok) onClose();
  };
  return (
    <Dialog title={old ? 'Rename' : what === 'folder' ? 'New folder' : 'New file'} onClose={onClose}>
      <form onSubmit={(e) => { e.preventDefault(); void finish(); }}>
        <TextField label="Name" value={name} on={setName} required mono />
        <footer class="row end"><Button onClick={onClose}>Cancel</Button><Button type="submit" kind="primary">Save</Button></footer>
      </form>
    </Dialog>
  );
}

function Editor({id, file, onClose}: {id: string; file: FileInfo; onClose: () => void}) {
  const [text, setText] = useState<string | null>(null);
  const [saved, setSaved] = useState('');
  const [error, setError] = useState<string | null>(null);
  useEffect(() => {
    const load = async (): Promise<void> => {
      if (file.size > EDIT_BYTES_MAX) throw new Error(`The file has ${bytes(file.size)}, too much to edit here. Download it.`);
      const answer = await api.call(`${api.inside(id)}/files/download`, {query: {path: file.path}});
      const raw = new Uint8Array(await answer.arrayBuffer());
      if (raw.includes(0)) throw new Error('This is not a text. Download it to look at it.');
      const found = new TextDecoder().decode(raw);
      setText(found);
      setSaved(found);
    };
    load().catch((e: Error) => setError(e.message));
  }, [file.path]);
  const keep = async (): Promise<void> => {
    if (text === null) return;
    if (await attempt(() => upload(id, parentPath(file.path), [new File([text], baseName(file.path))]))) {
      setSaved(text);
      tell(`${baseName(file.path)} is saved.`);
    }
  };
  const close = async (): Promise<void> => {
    if (text === null || text === saved || (await confirm('Close without saving', 'The changes will be lost.', 'Close'))) onClose();
  };
  return (
    <Dialog title={file.path} onClose={() => void close()} wide>
      <Problem error={error} />
      {text === null ? !error && <Loading /> : (
        <textarea class="editor mono" aria-label={`Text of ${file.path}`} value={text} spellcheck={false} onInput={(e) => setText(e.currentTarget.value)}
          onKeyDown={(e) => {
            if ((e.ctrlKey || e.metaKey) && e.key === 's') {
              e.preventDefault();
              void keep();
            }
          }} />
      )}
      <footer class="row end">
        <span class="about">{text !== saved && text !== null ? 'Changed' : ''}</span>
        <Button icon="download" onClick={() => void attempt(() => download(id, file))}>Download</Button>
        <Button kind="primary" disabled={text === null || text === saved} onClick={() => void keep()}>Save</Button>
      </footer>
    </Dialog>
  );
}

