"""The files of the dashboard: read once, served from memory, compressed, with entity tags and a strict policy.

All files but ``index.html`` are served below a path that holds a digest of their content, so browsers may keep them for
ever. ``index.html`` is the answer at the path of every page; the program in it draws the page.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

PAGE_PATHS = (
    "/", "/recall", "/record", "/memories", "/graph", "/sessions", "/experience", "/trust", "/proposals", "/forecasts",
    "/agents", "/live", "/operations", "/login",
)  # fmt: skip
"""The pages. What a page shows is in the query of its URL, so that a name with a slash needs no second encoding."""

CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "form-action 'self'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Vary": "Accept-Encoding",
    "X-Content-Type-Options": "nosniff",
}
_FOLDER = Path(__file__).parent / "static"
_SERVED_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class Asset:
    """One file as it is served."""

    content: bytes
    compressed: bytes
    media_type: str
    entity_tag: str
    cache_control: str


def read_assets(folder: Path = _FOLDER) -> dict[str, Asset]:
    """Return the files of the dashboard by the path at which they are served."""
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.suffix in _SERVED_TYPES
    }
    digest = hashlib.sha256(b"".join(name.encode() + content for name, content in files.items())).hexdigest()[:16]
    page = _to_asset(
        "index.html", files.pop("index.html").replace(b"{static}", f"/static/{digest}".encode()), "no-cache"
    )
    kept = "public, max-age=31536000, immutable"
    return {
        **{f"/static/{digest}/{name}": _to_asset(name, content, kept) for name, content in files.items()},
        **dict.fromkeys(PAGE_PATHS, page),
    }


def serve_asset(assets: Mapping[str, Asset], request: Request) -> Response:
    """Return the file at the path of a request, or that the browser has it already."""
    asset = assets.get(request.scope["path"])
    if asset is None:
        raise HTTPException(404)
    headers = {**_HEADERS, "ETag": asset.entity_tag, "Cache-Control": asset.cache_control}
    if request.headers.get("if-none-match") == asset.entity_tag:
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(asset.compressed, 200, {**headers, "Content-Encoding": "gzip"}, asset.media_type)
    return Response(asset.content, 200, headers, asset.media_type)


def _to_asset(name: str, content: bytes, cache_control: str) -> Asset:
    media_type = _SERVED_TYPES[Path(name).suffix]
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    return Asset(content, gzip.compress(content, 9, mtime=0), media_type, tag, cache_control)
