"""``python3 -m local_stack.env_file``: write ``.env``, the settings of docker-compose.yaml, with secrets.

This module needs only the standard library of any Python 3. It keeps the values of an existing ``.env``, so
that it can be repeated after an upgrade with new settings.
"""

from __future__ import annotations

import argparse
import base64
import os
import secrets
from collections.abc import Callable
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent


def _word() -> str:
    return secrets.token_hex(24)  # no character with a meaning in URLs or shells


def _fernet_key() -> str:
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()


MADE: dict[str, Callable[[], str]] = {
    "AIRFLOW_ADMIN_PASSWORD": _word,
    "AIRFLOW_FERNET_KEY": _fernet_key,
    "AIRFLOW_JWT_SECRET": _word,
    "AIRFLOW_SESSION_SECRET": _word,
    "MINIO_ROOT_PASSWORD": _word,
    "MINIO_ROOT_USER": lambda: secrets.token_hex(8),
    "POSTGRES_PASSWORD": _word,
    "REDIS_PASSWORD": _word,
    "S3_ACCESS_KEY": lambda: secrets.token_hex(10),
    "S3_SECRET_KEY": lambda: secrets.token_hex(20),
}


def make_env_file(example: Path, target: Path) -> list[str]:
    """Write the settings of the example, with the values of an existing file, or with new secrets.

    Only the owner can read the file, and it appears complete.

    Returns:
        Names of the new settings.
    """
    old = _settings(target.read_text()) if target.exists() else {}
    lines = []
    for line in example.read_text().splitlines():
        name, found, value = line.partition("=")
        if found and not line.startswith("#"):
            make = MADE.get(name, lambda value=value: value)
            line = f"{name}={old.pop(name) if name in old else make()}"
        lines.append(line)
    if old:
        lines += ["", "# Your own", *(f"{name}={value}" for name, value in old.items())]
    before = _settings(target.read_text()) if target.exists() else {}
    _write_private(target, "\n".join(lines) + "\n")
    return sorted(set(_settings("\n".join(lines))) - set(before))


def _settings(text: str) -> dict[str, str]:
    pairs = (line.partition("=") for line in text.splitlines() if line and not line.startswith("#"))
    return {name: value for name, found, value in pairs if found}


def _write_private(path: Path, text: str) -> None:
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
        stream.write(text)
    partial.replace(path)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python3 -m local_stack.env_file", description=__doc__)
    parser.add_argument("--output", type=Path, default=PROJECT / ".env")
    output = parser.parse_args().output
    new = make_env_file(PROJECT / ".env.example", output)
    print(f"{output}: {len(new)} new settings" if new else f"{output}: no setting was missing")


if __name__ == "__main__":
    main()
