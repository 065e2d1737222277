// Begins the console: the frame around the pages, their addresses, and the login.
import {render} from 'preact';
import {useEffect, useState} from 'preact/hooks';
import * as api from './api';
import * as live from './live';
import {AuditPage, KeysPage, TenantsPage} from './pages/teams';
import {HealthPage} from './pages/health';
import {ImagesPage} from './pages/images';
import {Login} from './pages/login';
import {Overview} from './pages/overview';
import {PoolsPage} from './pages/pools';
import {SandboxesPage} from './pages/sandboxes';
import {SnapshotsPage} from './pages/snapshots';
import {VolumesPage} from './pages/volumes';
import {SandboxPage} from './sandbox/sandbox';
import './styles.css';
import {Icon, IconButton, Notes, Questions} from './ui';

// --- addresses: "#/sandboxes/ID/files" ---

function segments(): string[] {
  return location.hash.replace(/^#\/?/, '').split('?')[0]!.split('/').filter(Boolean).map(decodeURIComponent);
}

function useRoute(): string[] {
  const [at, set] = useState(segments);
  useEffect(() => {
    const change = (): void => set(segments());
    addEventListener('hashchange', change);
    return () => removeEventListener('hashchange', change);
  }, []);
  return at;
}

// --- light and dark ---

type Theme = 'light' | 'dark';
const THEME = 'opensandbox.theme';

function theme(): Theme {
  const chosen = localStorage.getItem(THEME);
  if (chosen === 'light' || chosen === 'dark') return chosen;
  return matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
}

function applyTheme(t: Theme): void {
  document.documentElement.dataset['theme'] = t;
}

function ThemeButton() {
  const [now, set] = useState(theme);
  const other: Theme = now === 'dark' ? 'light' : 'dark';
  return (
    <IconButton icon={now === 'dark' ? 'sun' : 'moon'} label={`Use the ${other} theme`} onClick={() => {
      localStorage.setItem(THEME, other);
      applyTheme(other);
      set(other);
    }} />
  );
}

// --- the frame ---

interface Place {
  id: string;
  name: string;
  icon: string;
  needs?: string;
}

const PLACES: Place[] = [
  {id: 'overview', name: 'Overview', icon: 'overview'},
  {id: 'sandboxes', name: 'Sandboxes', icon: 'box'},
  {id: 'snapshots', name: 'Snapshots', icon: 'camera'},
  {id: 'images', name: 'Images', icon: 'layers', needs: 'images'},
  {id: 'volumes', name: 'Volumes', icon: 'disk', needs: 'volumes'},
  {id: 'pools', name: 'Pools', icon: 'pool', needs: 'pools'},
  {id: 'keys', name: 'Keys', icon: 'key', needs: 'keys'},
  {id: 'tenants', name: 'Tenants', icon: 'users', needs: 'tenants'},
  {id: 'audit', name: 'Audit', icon: 'list', needs: 'audit'},
  {id: 'health', name: 'Settings and health', icon: 'settings'},
];

function Content({route}: {route: string[]}) {
  const [place, id, tab] = route;
  switch (place) {
    case undefined:
    case 'overview':
      return <Overview />;
    case 'sandboxes':
      return id ? <SandboxPage key={id} id={id} tab={tab ?? 'summary'} /> : <SandboxesPage />;
    case 'snapshots':
      return <SnapshotsPage />;
    case 'images':
      return <ImagesPage />;
    case 'volumes':
      return <VolumesPage />;
    case 'pools':
      return <PoolsPage />;
    case 'keys':
      return <KeysPage />;
    case 'tenants':
      return <TenantsPage />;
    case 'audit':
      return <AuditPage />;
    case 'health':
      return <HealthPage />;
    default:
      return <p>There is no such page. <a href="#/">Overview</a></p>;
  }
}

function Frame({onLogout}: {onLogout: () => void}) {
  const route = useRoute();
  const online = live.useValue(live.online);
  const features = live.useValue(live.features);
  const mode = live.useValue(live.mode);
  const who = live.useValue(live.who);
  const role = live.useValue(live.role);
  const [open, setOpen] = useState(false);
  const at = route[0] ?? 'overview';
  useEffect(() => {
    setOpen(false);
    const place = PLACES.find((p) => p.id === at);
    document.title = `${place?.name ?? 'Console'} · OpenSandbox`;
  }, [route.join('/')]);
  return (
    <div class="frame">
      <a class="skip" href="#content" onClick={(e) => { e.preventDefault(); document.getElementById('content')?.focus(); }}>Skip to content</a>
      <header class="topbar">
        <span class="menu-button"><IconButton icon="menu" label="Menu" aria-expanded={open} onClick={() => setOpen(!open)} /></span>
        <a class="brand" href="#/"><img src="/console/icon.svg" alt="" width="24" height="24" />OpenSandbox</a>
        <span class={`contact ${online ? 'good' : 'bad'}`} role="status">{online ? (mode === 'events' ? 'Live' : 'Connected') : 'Reconnecting'}</span>
        {who && <span class="who" title={`Signed in as ${who}, with the role ${role}`}>{who} <span class="about">{role}</span></span>}
        <ThemeButton />
        <IconButton icon="out" label="Log out" onClick={onLogout} />
      </header>
      <nav class={open ? 'side open' : 'side'} aria-label="Pages">
        {PLACES.filter((p) => !p.needs || features[p.needs]).map((p) => (
          <a key={p.id} href={`#/${p.id}`} aria-current={p.id === at ? 'page' : undefined}><Icon name={p.icon} />{p.name}</a>
        ))}
      </nav>
      <main id="content" tabIndex={-1}><Content route={route} /></main>
    </div>
  );
}

function App() {
  const [inside, set] = useState(api.hasKey);
  const leave = (reason: string | null): void => {
    api.setKey(null);
    setWhy(reason);
    set(false);
  };
  const [why, setWhy] = useState<string | null>(null);
  useEffect(() => {
    if (!inside) return;
    live.start();
    const refused = api.whenRefused(() => {
      const signedIn = api.hasSession();
      api.setSession(false);
      leave(signedIn ? 'You are no longer signed in.' : 'The server no longer takes this key.');
    });
    return () => {
      refused();
      live.end();
    };
  }, [inside]);
  return (
    <>
      {inside
        ? <Frame onLogout={() => void api.signOut().then(() => leave(null))} />
        : <Login why={why} onLogin={(key) => { api.setKey(key); set(true); }} onSignedIn={() => { api.setSession(true); set(true); }} />}
      <Notes />
      <Questions />
    </>
  );
}

applyTheme(theme());
render(<App />, document.getElementById('app')!);
