"""The commands ``up``, ``down`` and ``status``."""

from __future__ import annotations

from local_stack.airflow import INPUT_URI, OUTPUT_URI, USER
from local_stack.example_graph import build_graph, graph_is_there, upload_graph
from local_stack.folders import PROJECT, Folders, load_secrets
from local_stack.stack import Launch, Running, refuse_if_busy, running, stop_running
from local_stack.state import is_running, read_state


def up(folders: Folders) -> int:
    """Start all services and keep them running."""
    folders.make()
    found = running(folders)
    if found is None:
        refuse_if_busy(folders)
        launch = Launch(folders, "up", leased=False)
        try:
            found = launch.wait(print)
        except BaseException:
            launch.stop()
            raise
    if not graph_is_there(found.s3):
        upload_graph(build_graph(folders), found.s3.settings())
    print(_how_to_use(found))
    return 0


def down(folders: Folders) -> int:
    """Stop the running services."""
    print("Stopping Airflow and the S3 server" if is_running(folders) else "Nothing is running.")
    if stop_running(folders):
        print("Stopped.")
    return 0


def status(folders: Folders) -> int:
    """Print which services run; the exit status is 3 if none does, as for system services."""
    found = running(folders)
    if found is not None:
        print(_how_to_use(found))
        return 0
    state = read_state(folders)
    if is_running(folders) and state is not None:
        print(f"On its way ({state.owner}): {state.message}")
        return 0
    print("Nothing is running.")
    return 3


def _how_to_use(found: Running) -> str:
    secrets = load_secrets(found.folders)
    state, root = found.state, found.folders.root
    return f"""
Airflow    {state.airflow_url}
           user {USER}, password {secrets.airflow_password}
S3 server  {found.s3.endpoint_url}, its files are in {_short(root / "s3")}
           keys are in {_short(found.folders.secrets)}
Logs       {_short(found.folders.logs)}

To partition a graph: in the browser, Dags > Partition a graph > Trigger. The form names the example
graph in {INPUT_URI}; results go to {OUTPUT_URI}.
'make demo' uses this Airflow while it runs.
To stop: make down
"""


def _short(path: object) -> str:
    return str(path).removeprefix(f"{PROJECT}/")
