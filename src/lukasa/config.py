"""Where the store is and what it may be told: environment, nearest ``.lukasa/``, the user's data folder."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from platformdirs import user_data_path

from lukasa.canonical_json import SURROGATES
from lukasa.errors import FormatError, InvalidInput
from lukasa.storage.location import IN_MEMORY, StoreLocation

if TYPE_CHECKING:
    from lukasa.vault import VaultSettings

STORE_VARIABLE = "LUKASA_STORE"
READ_VARIABLE = "LUKASA_READ_URL"
PROFILE_VARIABLE = "LUKASA_PROFILE"
FILES_VARIABLE = "LUKASA_FILES"
STORE_FILE = "memory.db"


def find_store(environment: Mapping[str, str] | None = None, start: Path | None = None) -> str:
    """The store to use when none is named."""
    environment = os.environ if environment is None else environment
    if named := environment.get(STORE_VARIABLE):
        return named
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / ".lukasa").is_dir():
            return str(folder / ".lukasa" / STORE_FILE)
    return str(user_data_path("lukasa") / STORE_FILE)


def locate_store(store: str | os.PathLike[str] | None) -> StoreLocation:
    """Reads a store's name: a path, ``sqlite:PATH``, ``postgresql://…`` or ``memory:``."""
    name = os.fspath(store) if store is not None else find_store()
    if not name:
        raise InvalidInput("The store's name is empty.", hint="Give a file, such as agents.db, or a postgresql:// URL.")
    if "\0" in name or SURROGATES.search(name):
        raise InvalidInput("The store's name holds a character that no file name of a store may have.")
    if name == IN_MEMORY:
        return StoreLocation("memory")
    if name.startswith(("postgresql://", "postgres://")):
        return StoreLocation("postgresql", url=name)
    path = Path(name.removeprefix("sqlite:")).expanduser()
    if path.is_dir():
        path = path / STORE_FILE
    return StoreLocation("sqlite", path.absolute())


def read_profile(profile: str | os.PathLike[str] | VaultSettings | None) -> VaultSettings | None:
    """The vault's rules: as given, or from a YAML file; ``None`` where nobody names one.

    The file is the document's: ``memory: {enabled, scopes, max_items, similarity_threshold}``, and any other rule.
    """
    if profile is None:
        profile = os.environ.get(PROFILE_VARIABLE) or None
    if not isinstance(profile, str | os.PathLike):
        return profile
    import yaml  # type: ignore[import-untyped]  # its types come as another package

    try:
        told = yaml.safe_load(Path(profile).expanduser().read_text("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise FormatError(f"{os.fspath(profile)} is not YAML.") from error
    settings = told.get("memory", {}) if isinstance(told, dict) else told if told is not None else {}
    if not isinstance(settings, dict):
        raise FormatError(f"{os.fspath(profile)} is not a profile.", hint="It needs a mapping named memory.")
    return _parse_settings(settings)


def _parse_settings(settings: dict[str, Any]) -> VaultSettings:
    from dataclasses import fields

    from lukasa.vault import VaultSettings

    kinds = {field.name: type(getattr(VaultSettings(), field.name)) for field in fields(VaultSettings)}
    kinds["scopes"] = tuple
    for name, value in settings.items():
        if name not in kinds:
            raise InvalidInput(f"{name!r:.60} is not a setting of memory.", hint=f"Known are: {', '.join(kinds)}.")
        if kinds[name] is tuple and isinstance(value, list) and all(isinstance(each, str) for each in value):
            settings[name] = tuple(value)
        elif kinds[name] is float and type(value) in (int, float):
            settings[name] = float(value)
        elif type(value) is not kinds[name] or (name == "pii" and not all(isinstance(kind, str) for kind in value)):
            raise InvalidInput(f"The setting {name!r} of memory cannot be {value!r:.60}.")
    return VaultSettings(**settings)


def locate_files(location: StoreLocation, environment: Mapping[str, str] | None = None) -> str | None:
    """Where a store keeps what is not in the database: checkpoints. ``None`` for a store that lives in memory.

    ``LUKASA_FILES`` says it, as a folder or a URL. Else they lie beside the store's file, in a folder of its name, or in
    its own folder if the store is the ``memory.db`` there. A server's are in the user's data folder.
    """
    environment = os.environ if environment is None else environment
    if named := environment.get(FILES_VARIABLE):
        return named
    if location.path is not None:
        own = location.path.name == STORE_FILE
        return str(location.path.parent if own else location.path.with_name(f"{location.path.name}.files"))
    if location.engine == "memory":
        return None
    return str(user_data_path("lukasa") / f"files-{hashlib.sha256(str(location).encode()).hexdigest()[:16]}")
