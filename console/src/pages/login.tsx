import {useEffect, useState} from 'preact/hooks';
import * as api from '../api';
import {Button, Problem, TextField} from '../ui';

export function Login({why, onLogin}: {why: string | null; onLogin: (key: string) => void}) {
  const [key, setKey] = useState('');
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<string | null>(why);
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
  // A server without keys asks for none.
  useEffect(() => {
    document.title = 'Log in · OpenSandbox';
    if (!why) void api.tryKey('').then(() => onLogin(''), () => undefined);
  }, []);
  return (
    <main class="login">
      <form class="card" onSubmit={(e) => { e.preventDefault(); void enter(key.trim()); }}>
        <img src="/console/icon.svg" alt="" width="48" height="48" />
        <h1>OpenSandbox</h1>
        <TextField label="API key" type="password" value={key} on={setKey} required hint="It is kept in this tab only, and is gone when you close it." />
        <Problem error={error} />
        <Button type="submit" kind="primary" busy={busy}>Log in</Button>
      </form>
    </main>
  );
}
