"""postgres_process.py - a PostgreSQL cluster with a directory and a socket of its own.

    with Postgres() as postgres:
        config = {"store": {"type": "postgres", "dsn": postgres.dsn}}

As a program: postgres_process.py COMMAND... runs the command with OSB_TEST_POSTGRES set to the
connection string of a cluster, and ends with its exit status.
"""
import glob
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SECONDS_MAX = 120


def programs():
    """The newest version's directory of programs; None without one."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=lambda path: int(path.split("/")[4]))
    return found[-1] if found else None


def why_not():
    """Why no cluster can run here; None when one can."""
    if not programs():
        return "PostgreSQL is not installed"
    return None if os.geteuid() == 0 else "the cluster's account needs root to switch to"


def psql(dsn, sql, check=True):
    return subprocess.run(["psql", "-X", "-q", "-t", "-A", "-v", "ON_ERROR_STOP=1", dsn, "-c", sql],
                          check=check, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=SECONDS_MAX)


def own_schema(dsn, name):
    """The connection string with a schema of that name, which is made if need be."""
    psql(dsn, f'CREATE SCHEMA IF NOT EXISTS "{name}"')
    return f"{dsn} options='-c search_path=\"{name}\"'"


class Postgres:
    """A cluster that listens at a unix socket only; user and database are postgres'. `settings` are
    those of postgresql.conf; without any it does not wait for the disk."""

    def __init__(self, settings=("fsync=off",)):
        self.settings = settings
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="osb-postgres-"))
        self.data = self.folder / "data"
        self.log_path = self.folder / "log"
        self.process = None

    @property
    def dsn(self):
        return f"host={self.folder} user=postgres dbname=postgres"

    def __enter__(self):
        try:
            account = pwd.getpwnam("postgres")
            os.chown(self.folder, account.pw_uid, account.pw_gid)
            self.folder.chmod(0o755)
            self.as_account("initdb", "-D", self.data, "-A", "trust", "--no-sync", "-E", "UTF8")
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)  # at once; its children end with it
            self.process.wait(SECONDS_MAX)
        shutil.rmtree(self.folder, ignore_errors=True)

    def command(self, name, *words):
        return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups",
                f"{programs()}/{name}", *map(str, words)]

    def as_account(self, name, *words):
        return subprocess.run(self.command(name, *words), check=True, text=True, cwd="/",
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=SECONDS_MAX).stdout

    def start(self):
        """Starts it and waits until it takes connections."""
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                self.command("postgres", "-D", self.data, "-k", self.folder, "-h", "",
                             *(word for one in self.settings for word in ("-c", one)),
                             "-c", "log_min_messages=fatal"),
                cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        deadline = time.monotonic() + SECONDS_MAX
        while self.query("SELECT 1", check=False).returncode != 0:
            assert self.process.poll() is None, self.log_path.read_text(encoding="utf-8")
            assert time.monotonic() < deadline, "PostgreSQL takes no connections"
            time.sleep(0.05)

    def stop(self, signo=signal.SIGINT):
        """Ends it: connections are cut. SIGKILL leaves its children to notice by themselves."""
        self.process.send_signal(signo)
        self.process.wait(SECONDS_MAX)

    def query(self, sql, check=True):
        return psql(self.dsn, sql, check)


def main():
    if why_not():
        print(f"1..0 # SKIP {why_not()}")
        return 0
    with Postgres() as postgres:
        return subprocess.run(sys.argv[1:], check=False,
                              env={**os.environ, "OSB_TEST_POSTGRES": postgres.dsn}).returncode


if __name__ == "__main__":
    sys.exit(main())
