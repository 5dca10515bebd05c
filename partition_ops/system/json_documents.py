"""The JSON Schemas of every file that we read and write, and checks against them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError, best_match

from partition_ops.errors import InvalidInputError

_INSTALLED = Path(__file__).parents[1] / "_schemas"
_CHECKOUT = Path(__file__).parents[2] / "schemas"


def schema_folder() -> Path:
    """Where the JSON Schemas are: inside the installed package, or ``schemas/`` of a checkout."""
    return _INSTALLED if _INSTALLED.is_dir() else _CHECKOUT


_sound: set[bytes] = set()  # digests of what was checked: records are read again and again


@cache
def schema_document(name: str) -> dict[str, Any]:
    """The JSON Schema ``schemas/<name>.schema.json``."""
    document: dict[str, Any] = json.loads((schema_folder() / f"{name}.schema.json").read_text())
    return document


@cache
def _validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(schema_document(name))


def check_document(document: Any, schema: str, *, where: str) -> None:
    """Check a JSON document against ``schemas/<schema>.schema.json``.

    Args:
        document: The parsed document.
        schema: Name of the schema.
        where: URI of the document, for the message.

    Raises:
        InvalidInputError: With the path inside the document and what was expected there.
    """
    digest = hashlib.sha256(json.dumps([schema, document]).encode()).digest()
    if digest in _sound:
        return
    error = best_match(_validator(schema).iter_errors(document))
    if error is None:
        _sound.add(digest)
        return
    place = error.json_path.removeprefix("$").lstrip(".") or "the document"
    raise InvalidInputError(
        f"{where}: {place} is not as the format says: {_short(error.message)}",
        expected=_expected(error),
        remedy=f"The whole format is in schemas/{schema}.schema.json.",
    )


@contextmanager
def explain_damage(where: str, problem: str, *, expected: str, remedy: str) -> Iterator[None]:
    """Have a broken document told by what it is for, and by what to do about it.

    Args:
        where: Its URI.
        problem: What is wrong, in a sentence.
        expected: What should be there.
        remedy: What to do.

    Raises:
        InvalidInputError: With what was found.
    """
    try:
        yield
    except InvalidInputError as error:
        found = error.found or error.problem.removeprefix(f"{where}: ")
        raise InvalidInputError(problem, found=found, expected=expected, remedy=remedy) from error


def not_json(where: str, error: Exception) -> InvalidInputError:
    """The error for a document that is no JSON, from what Python's parser said."""
    if isinstance(error, json.JSONDecodeError) and not error.doc.strip():
        found = "nothing"
    elif isinstance(error, json.JSONDecodeError):
        near = error.doc[max(error.pos - 20, 0) : error.pos + 20]
        found = f"{error.msg}, in line {error.lineno}, column {error.colno}, near {near!r}"
    elif isinstance(error, UnicodeDecodeError):
        found = f"bytes that are no text in {error.encoding.upper()}, from byte {error.start} on"
    else:
        found = str(error)
    return InvalidInputError(
        f"{where} is not valid JSON",
        found=found,
        expected="a JSON document in UTF-8",
        remedy="Mend or replace the file.",
    )


def _expected(error: ValidationError) -> str | None:
    schema = error.schema if isinstance(error.schema, dict) else {}
    if "description" in schema:
        return str(schema["description"])
    return "an object with " + ", ".join(schema["required"]) if error.validator == "required" else None


def _short(text: str, limit: int = 300) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
