import {useEffect, useState} from 'preact/hooks';
import * as api from '../api';
import {Button, Problem, TextField} from '../ui';

const WAY = 'opensandbox.way'; // the page that was open before the way to the provider

/** Why the server sent the browser back from a sign-in. */
const REASONS: Record<string, string> = {
  declined: 'The sign-in was cancelled, or the provider does not know you.',
  expired: 'The sign-in took too long, or was begun in another browser. Try again.',
  failed: 'The sign-in failed. The log of the server says why.',
  no_role: 'The provider knows you, but you have no role on this server. Ask its administrator.',
  unavailable: 'The provider cannot be reached, or the server is too busy. Try again later.',
};

/** The reason in the address, which is removed from there. */
function takeReason(): string | null {
  const word = new URLSearchParams(location.search).get('signin');
  if (word === null) return null;
  history.replaceState(null, '', location.pathname + location.hash);
  return REASONS[word] ?? REASONS['failed']!;
}

function leaveFor(path: string): void {
  sessionStorage.setItem(WAY, location.hash);
  location.assign(path);
}

function returnFromThere(): void {
  const hash = sessionStorage.getItem(WAY);
  sessionStorage.removeItem(WAY);
  if (hash && !location.hash) location.hash = hash;
}

export function Login({why, onLogin, onSignedIn}: {why: string | null; onLogin: (key: string) => void; onSignedIn: () => void}) {
  const [key, setKey] = useState('');
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(why);
  const [signIn, setSignIn] = useState<api.SignIn['signIn']>(undefined);
  const enter = async (candidate: string): Promise<void> => {
    setBusy(true);
    setError(null);
    try {
      await api.tryKey(candidate);
      onLogin(candidate);
    } catch (e) {
      setError((e as Error).message);
      setBusy(false);
    }
  };
  const look = async (): Promise<void> => {
    const reason = takeReason();
    if (reason) setError(reason);
    const found = await api.askSession();
    setSignIn(found.signIn);
    if (why || reason) return;
    if (found.signedIn) {
      returnFromThere();
      onSignedIn();
    } else {
      // A server without keys asks for none.
      await api.tryKey('').then(() => onLogin(''), () => undefined);
    }
  };
  useEffect(() => {
    document.title = 'Log in · OpenSandbox';
    void look();
  }, []);
  return (
    <main class="login">
      <form class="card" onSubmit={(e) => { e.preventDefault(); void enter(key.trim()); }}>
        <img src="/console/icon.svg" alt="" width="48" height="48" />
        <h1>OpenSandbox</h1>
        {signIn && <Button kind="primary" onClick={() => leaveFor(signIn.path)}>Sign in with {signIn.name}</Button>}
        {signIn && <p class="about or">or with an API key</p>}
        <TextField label="API key" type="password" value={key} on={setKey} required hint="It is kept in this tab only, and is gone when you close it." />
        <Problem error={error} />
        <Button type="submit" kind={signIn ? 'plain' : 'primary'} busy={busy}>Log in</Button>
      </form>
    </main>
  );
}
