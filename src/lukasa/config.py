"""Configuration: the location of the store and of its files, the profile, and every environment variable.

No other module of the package reads the environment, but for the client of the hooks, which loads nothing else.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lukasa.core.canonical_json import SURROGATES
from lukasa.core.names import find_number, is_plain_name
from lukasa.errors import FormatError, InvalidInput
from lukasa.models.embedders import EMBEDDER_KEY_VARIABLE, EMBEDDER_VARIABLE
from lukasa.storage.engines import ENGINES, find_engine_for_url
from lukasa.storage.files import read_limited
from lukasa.storage.location import IN_MEMORY, StoreLocation

if TYPE_CHECKING:
    from lukasa.models.llm import LanguageModel
    from lukasa.models.reranker import Reranker
    from lukasa.vault import VaultSettings

STORE_VARIABLE = "LUKASA_STORE"
READ_VARIABLE = "LUKASA_READ_URL"
PROFILE_VARIABLE = "LUKASA_PROFILE"
FILES_VARIABLE = "LUKASA_FILES"
TOKEN_VARIABLE = "LUKASA_TOKEN"  # noqa: S105 - the name of a variable
RERANKER_VARIABLE = "LUKASA_RERANKER"
RERANKER_KEY_VARIABLE = "LUKASA_RERANKER_KEY"
EMBEDDER_FAILURE_VARIABLE = "LUKASA_EMBEDDER_FAILURE"
HOLDOUT_VARIABLE = "LUKASA_HOLDOUT"
RECALL_DEADLINE_VARIABLE = "LUKASA_RECALL_DEADLINE"
UPKEEP_VARIABLE = "LUKASA_UPKEEP"
HUB_VARIABLE = "LUKASA_HUB"
HUB_TOKEN_VARIABLE = "LUKASA_HUB_TOKEN"  # noqa: S105 - the name of a variable
HERMES_VARIABLE = "HERMES_HOME"
BACKUP_SECRET_VARIABLE = "LUKASA_BACKUP_SECRET"  # noqa: S105 - the name of a variable
SESSION_VARIABLES = ("LUKASA_SESSION_ID", "VOXSIGIL_SESSION_ID")
STORE_FILE = "memory.db"
PROJECT_FOLDER = ".lukasa"
DOCUMENT_PROFILE = "document"
_MAX_PROFILE_BYTES = 1_000_000
_THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def limit_numpy_threads() -> None:
    """Limit numpy to one thread unless the environment says otherwise. Call this before numpy is imported.

    Programs of Lukasa call it; the library does not, because the process belongs to its user. Matrices here are small: a
    thread for each core saves little and uses processor time while it waits for the next product.
    """
    for name in _THREAD_VARIABLES:
        os.environ.setdefault(name, "1")


def find_store(environment: Mapping[str, str] | None = None, start: Path | None = None) -> str:
    """Return the store to use when the caller names none.

    In this order: ``LUKASA_STORE``, the nearest ``.lukasa/`` folder upwards, the user's data folder.
    """
    environment = os.environ if environment is None else environment
    if not environment.get(STORE_VARIABLE) and (nearest := find_nearest_store(start)) is not None:
        return str(nearest)
    return find_user_store(environment)


def find_nearest_store(start: Path | None = None) -> Path | None:
    """Return the store in the nearest ``.lukasa/`` folder upwards, or ``None``. It may have come from a stranger."""
    here = (start or Path.cwd()).resolve()
    found = (folder / PROJECT_FOLDER for folder in (here, *here.parents))
    return next((folder / STORE_FILE for folder in found if folder.is_dir()), None)


def find_user_store(environment: Mapping[str, str] | None = None) -> str:
    """Return the store of this user in every folder: that of ``LUKASA_STORE``, else the file in the user's data folder."""
    environment = os.environ if environment is None else environment
    if named := environment.get(STORE_VARIABLE):
        return named
    from platformdirs import user_data_path

    return str(user_data_path("lukasa") / STORE_FILE)


def is_store_named(store: str | os.PathLike[str] | None) -> bool:
    """Return whether the caller or ``LUKASA_STORE`` names the store; else it is found by its folder."""
    return store is not None or bool(os.environ.get(STORE_VARIABLE))


def locate_hermes() -> Path:
    """Return the folder where Hermes Agent keeps its configuration."""
    named = os.environ.get(HERMES_VARIABLE, "").strip()
    return Path(named).expanduser() if named else Path.home() / ".hermes"


def locate_store(store: str | os.PathLike[str] | None) -> StoreLocation:
    """Parse a store's name: a path, ``sqlite:PATH``, ``postgresql://…`` or ``memory:``."""
    name = os.fspath(store) if store is not None else find_store()
    if not name:
        raise InvalidInput("The store's name is empty.", hint="Give a file, such as agents.db, or a postgresql:// URL.")
    if "\0" in name or SURROGATES.search(name):
        raise InvalidInput("The store's name holds a character that no file name of a store may have.")
    if name == IN_MEMORY:
        return StoreLocation("memory")
    if (engine := find_engine_for_url(name)) is not None:
        return StoreLocation(engine, url=name)
    scheme, separator, _ = name.partition("://")
    if separator and scheme != "sqlite" and scheme[:1].isalpha() and is_plain_name(scheme, "+.-", len(scheme)):
        known = ", ".join(f"{known}://" for entry in ENGINES.values() for known in entry.schemes)
        raise InvalidInput(
            f"There is no store at a {scheme[:27]}:// URL.", hint=f"Known are: a path, sqlite:PATH, {known}, memory:."
        )
    try:
        plain = name.removeprefix("sqlite:")
        path = Path("/" + plain.lstrip("/") if plain.startswith("//") else plain).expanduser()
    except RuntimeError as error:
        raise InvalidInput(f"{name[:80]!r} names the folder of a user who is not known here.") from error
    if path.is_dir():
        path = path / STORE_FILE
    return StoreLocation("sqlite", path.absolute())


def default_read_url() -> str | None:
    """Return the replica that ``LUKASA_READ_URL`` names, or ``None``."""
    return os.environ.get(READ_VARIABLE) or None


def read_profile(profile: str | os.PathLike[str] | VaultSettings | None) -> VaultSettings | None:
    """Return the vault's settings: as given, those of the profile ``document``, or from a YAML file, or ``None``.

    The file has the layout of the document, ``memory: {enabled, scopes, max_items, similarity_threshold}``, and may hold
    any other field of ``VaultSettings``.
    """
    if profile is None:
        profile = os.environ.get(PROFILE_VARIABLE) or None
    if not isinstance(profile, str | os.PathLike):
        return profile
    if os.fspath(profile) == DOCUMENT_PROFILE:
        from lukasa.vault.settings import DOCUMENT_SETTINGS

        return DOCUMENT_SETTINGS
    import yaml  # type: ignore[import-untyped]  # its types come as another package

    try:
        document = yaml.safe_load(read_limited(Path(profile).expanduser(), _MAX_PROFILE_BYTES).decode())
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise FormatError(f"{os.fspath(profile)} is not YAML.") from error
    settings = document.get("memory", {}) if isinstance(document, dict) else document if document is not None else {}
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
        if kinds[name] is tuple and isinstance(value, list) and all(isinstance(item, str) for item in value):
            settings[name] = tuple(value)
        elif kinds[name] is float and type(value) in (int, float):
            settings[name] = float(value)
        elif type(value) is not kinds[name] or (name == "pii" and not all(isinstance(kind, str) for kind in value)):
            raise InvalidInput(f"The setting {name!r} of memory cannot be {value!r:.60}.")
    return VaultSettings(**settings)


def locate_files(location: StoreLocation, environment: Mapping[str, str] | None = None) -> str | None:
    """Return where a store keeps its checkpoint files, or ``None`` for a store in memory.

    ``LUKASA_FILES`` names a folder or a URL. Without it, the files are next to the store's file: in a folder with the
    file's name, or in the same folder if the file is ``memory.db``. For a server they are in the user's data folder.
    """
    environment = os.environ if environment is None else environment
    if named := environment.get(FILES_VARIABLE):
        return named
    if location.path is not None:
        is_default = location.path.name == STORE_FILE
        return str(location.path.parent if is_default else location.path.with_name(f"{location.path.name}.files"))
    if location.engine == "memory":
        return None
    from platformdirs import user_data_path

    return str(user_data_path("lukasa") / f"files-{hashlib.sha256(str(location).encode()).hexdigest()[:16]}")


def default_session_id() -> str | None:
    """Return the id of the session to resume that the environment names, or ``None``."""
    return next((os.environ[name] for name in SESSION_VARIABLES if os.environ.get(name)), None)


def locate_owner_token(location: StoreLocation) -> Path:
    """Return the file for the first token of a store's owner: next to the store's file, else in the user's configuration."""
    if location.path is not None:
        is_default = location.path.name == STORE_FILE
        return location.path.with_name("owner.token" if is_default else f"{location.path.name}.owner.token")
    from platformdirs import user_config_path

    return user_config_path("lukasa") / f"owner-{hashlib.sha256(str(location).encode()).hexdigest()[:16]}.token"


def single_token() -> str:
    """Return the API token that ``LUKASA_TOKEN`` gives in the clear, or ""."""
    return os.environ.get(TOKEN_VARIABLE, "")


def find_hub() -> tuple[str, str] | None:
    """Return the address of the hub in ``LUKASA_HUB`` and the token for it, or ``None`` for the hub in the store.

    The token in ``LUKASA_HUB_TOKEN`` is sent to no other server. What a session's configuration names counts for nothing,
    because the session may have been imported, or written by another agent.
    """
    hub = os.environ.get(HUB_VARIABLE, "")
    return (hub, hub_token()) if hub else None


def hub_token() -> str:
    """Return the token for the hub from ``LUKASA_HUB_TOKEN``, or ""."""
    return os.environ.get(HUB_TOKEN_VARIABLE, "")


def backup_secret() -> str:
    """Return the secret of encrypted backups from ``LUKASA_BACKUP_SECRET``, or ""."""
    return os.environ.get(BACKUP_SECRET_VARIABLE, "")


def embedder_name() -> str | None:
    """Return the embedder that ``LUKASA_EMBEDDER`` names for new stores, or None."""
    return os.environ.get(EMBEDDER_VARIABLE) or None


def embedder_key() -> str:
    """Return the API key of the embedder from ``LUKASA_EMBEDDER_KEY``."""
    return os.environ.get(EMBEDDER_KEY_VARIABLE, "")


def open_configured_reranker() -> Reranker | None:
    """Open the reranker that ``LUKASA_RERANKER`` names, with the API key in ``LUKASA_RERANKER_KEY``; none without a name."""
    if not (name := os.environ.get(RERANKER_VARIABLE, "")):
        return None
    from lukasa.models.reranker import open_reranker

    return open_reranker(name, os.environ.get(RERANKER_KEY_VARIABLE, ""))


def held_out_share() -> float:
    """Return the share of sessions that are shown nothing, so that they can be compared (``LUKASA_HOLDOUT``); 0 by default."""
    text = os.environ.get(HOLDOUT_VARIABLE, "") or "0"
    if text in ("0", "1") or (text.startswith("0.") and text[2:].isdecimal()):
        return float(text)
    raise InvalidInput(
        f"{HOLDOUT_VARIABLE} is a share from 0 to 1, not {text!r:.40}.", hint="Set 0.1 to hold out one in ten."
    )


def is_upkeep_on() -> bool:
    """Return whether consolidation and pruning run by themselves: always, unless ``LUKASA_UPKEEP`` is ``off``."""
    return os.environ.get(UPKEEP_VARIABLE, "").lower() != "off"


def must_embed() -> bool:
    """Return whether recall fails when the embedder does (``LUKASA_EMBEDDER_FAILURE=error``); else words alone answer."""
    return os.environ.get(EMBEDDER_FAILURE_VARIABLE, "") == "error"


def recall_deadline() -> float | None:
    """Return the seconds that a recall waits for the embedder (``LUKASA_RECALL_DEADLINE``), or ``None``."""
    text = os.environ.get(RECALL_DEADLINE_VARIABLE, "")
    if not text:
        return None
    whole, point, part = text.partition(".")
    is_number = all(
        find_number(digits, "", digits=range(1, 7)) is not None for digits in (whole, part) if digits or point
    )
    if not is_number or not float(text):
        raise InvalidInput(
            f"{RECALL_DEADLINE_VARIABLE} is {text!r:.40}, which is no number of seconds.",
            hint="Write 2.5, for instance.",
        )
    return float(text)


def open_configured_model(url_and_model: str = "") -> LanguageModel | None:
    """Open a language model with the key and the price in the environment; without a name, the one of ``LUKASA_LLM``."""
    from lukasa.models import llm

    return llm.open_language_model(
        url_and_model or os.environ.get(llm.MODEL_VARIABLE, ""),
        key=os.environ.get(llm.KEY_VARIABLE, ""),
        price=os.environ.get(llm.PRICE_VARIABLE, ""),
    )
