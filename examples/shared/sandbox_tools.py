"""sandbox_tools.py - the tools that agent frameworks give to a model: all of them act in a
sandbox."""

PROGRAM = "/tmp/product.py"
PROMPT = f"Write {PROGRAM}, which prints 137*42, run it, keep the result in /tmp/notes.txt and " \
    "read it."
SCRIPT = [
    {"write": PROGRAM, "text": "print(137 * 42)\n"},
    {"run": f"python3 {PROGRAM}"},
    {"call": "write_file", "with": {"path": "/tmp/notes.txt", "content": "137 * 42 = 5754\n"}},
    {"read": "/tmp/notes.txt"},
    {"say": "Done. The notes say: {result}"},
]


def tools(sandbox, log):
    """run_in_sandbox, write_file and read_file for this sandbox; `log` gets each call."""

    async def run_in_sandbox(command: str) -> str:
        """Run a shell command in the sandbox and return what it printed."""
        done = await sandbox.commands.run(command)
        log(f"run_in_sandbox: {command} -> {str(done).strip()}")
        return str(done)

    async def write_file(path: str, content: str) -> str:
        """Write a text file in the sandbox."""
        await sandbox.files.write_file(path, content)
        log(f"write_file: {path}")
        return f"wrote {len(content)} characters"

    async def read_file(path: str) -> str:
        """Read a text file of the sandbox."""
        text = await sandbox.files.read_file(path)
        log(f"read_file: {path} -> {text.strip()}")
        return text

    return run_in_sandbox, write_file, read_file
