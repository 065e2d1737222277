"""local_model.py - the scripted model in this process, for frameworks that call models from
here."""
import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "model"))
from scripted import Model  # noqa: E402


def local_model(script):
    """The address of a model that follows these steps; it ends with this program."""
    model = Model(("127.0.0.1", 0), script)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{model.server_port}"
