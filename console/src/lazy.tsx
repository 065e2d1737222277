// Parts that are loaded when they are first shown: the terminal and the desktop.
import type {FunctionComponent} from 'preact';
import {useEffect, useState} from 'preact/hooks';
import {Loading, Problem} from './ui';

export function lazy<P extends object>(load: () => Promise<FunctionComponent<P>>): FunctionComponent<P> {
  let found: FunctionComponent<P> | null = null;
  return function Lazy(props: P) {
    const [, again] = useState(0);
    const [error, setError] = useState<Error | null>(null);
    useEffect(() => {
      if (!found) load().then((c) => { found = c; again((n) => n + 1); }, (e: Error) => setError(e));
    }, []);
    if (error) return <Problem error={`a part of the console could not be loaded: ${error.message}`} />;
    const Part = found;
    return Part ? <Part {...props} /> : <Loading />;
  };
}
