"""The files of the dashboard: what is served, how long it is kept, under which policy, and where it comes from."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from starlette.types import ASGIApp

from lukasa.interfaces.api_tokens import ApiTokens
from lukasa.interfaces.auth import StoreTokenSource
from lukasa.interfaces.dashboard.assets import CONTENT_SECURITY_POLICY, PAGE_PATHS, read_assets
from lukasa.interfaces.http.app import build_app
from lukasa.interfaces.stores import Caller, CallerStores
from support.dashboard import AXE

pytestmark = pytest.mark.requirement("DOO-5")
ORIGIN = {"Origin": "http://testserver"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("assets") / "memory.db")


@pytest.fixture(scope="module")
def stores(place: str) -> Iterator[CallerStores]:
    stores = CallerStores(place, Caller(), embedder="hash")
    yield stores
    stores.close()


@pytest.fixture(scope="module")
def tokens(stores: CallerStores) -> ApiTokens:
    return StoreTokenSource(stores).open()


@pytest.fixture(scope="module")
def token(tokens: ApiTokens) -> str:
    """Return a token of the agent ada."""
    return tokens.add("ada", agent="ada")


@pytest.fixture(scope="module")
def app(stores: CallerStores) -> ASGIApp:
    return build_app(stores, StoreTokenSource(stores), ["testserver"])


@pytest.fixture
def client(app: ASGIApp) -> Iterator[TestClient]:
    """Return a client without cookies."""
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


def test_a_page_comes_with_the_strict_policy_and_is_checked_again(client: TestClient) -> None:
    answer = client.get("/memories")
    assert answer.headers["content-security-policy"] == CONTENT_SECURITY_POLICY
    assert "require-trusted-types-for 'script'; trusted-types 'none'" in CONTENT_SECURITY_POLICY
    assert "unsafe" not in CONTENT_SECURITY_POLICY
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-cache"
    again = client.get("/memories", headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert {client.get(path).text for path in PAGE_PATHS} == {answer.text}


def test_files_are_kept_for_ever_because_their_address_holds_a_digest(client: TestClient) -> None:
    address = re.findall(r'src="(/static/[0-9a-f]{16}/app\.js)"', client.get("/").text)[0]
    answer = client.get(address)
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert answer.headers["content-encoding"] == "gzip"
    assert client.get(address, headers={"Accept-Encoding": "identity"}).content == answer.content
    for path in ("/static/0000000000000000/app.js", address.replace("app.js", "../assets.py"), "/static/app.js"):
        assert client.get(path).status_code in (401, 404)


def test_the_page_holds_no_inline_script_or_style(static_folder: Path) -> None:
    page = (static_folder / "index.html").read_text("utf-8")
    assert re.findall(r"<script(?![^>]*\bsrc=)", page) == []
    assert re.findall(r"<style|style=|\son\w+=|importmap", page) == []


def test_no_file_writes_markup_or_names_another_server(static_folder: Path) -> None:
    for path in static_folder.rglob("*.js"):
        source = path.read_text("utf-8")
        if path.parent.name != "vendor":
            assert (
                re.findall(
                    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|dangerouslySet",
                    source,
                )
                == []
            ), path
            assert re.findall(r"""["'`]https?://""", source) == [], path
            assert re.findall(r"""style=(?!\$\{\{)""", source) == [], path


def test_each_page_is_listed_once_and_exports_its_title_and_path(static_folder: Path) -> None:
    listed = re.findall(
        r'title: "([^"]+)", path: "([^"]+)".*?import\("(\./pages/\w+\.js)"\)',
        (static_folder / "app.js").read_text("utf-8"),
    )
    assert sorted(path for _, path, _ in listed) == sorted(PAGE_PATHS)
    for title, path, file in listed:
        source = (static_folder / file).read_text("utf-8")
        assert f'export const title = "{title}";' in source
        assert f'export const path = "{path}";' in source
        assert "export function Page(" in source
    pages = [
        path for path in (static_folder / "pages").glob("*.js") if "export function Page(" in path.read_text("utf-8")
    ]
    assert len(listed) == len(pages)


def test_every_library_is_the_one_that_was_taken_with_its_licence(static_folder: Path) -> None:
    vendor = static_folder / "vendor"
    rows = json.loads((vendor / "VENDOR.json").read_text("utf-8"))["files"]
    for row in rows:
        assert hashlib.sha256((vendor / row["file"]).read_bytes()).hexdigest() == row["sha256"]
        assert hashlib.sha256((vendor / row["licence_file"]).read_bytes()).hexdigest() == row["licence_sha256"]
        assert row["licence"] in ("MIT", "Apache-2.0")
        assert row["integrity"].startswith("sha512-")
    listed = {row[name] for row in rows for name in ("file", "licence_file")} | {"VENDOR.json"}
    assert listed == {path.name for path in vendor.iterdir()}
    assert (
        hashlib.sha256(AXE.read_bytes()).hexdigest()
        == "20c09fe157a8a34a30e241aaa1fcdade657734f08ab379ecfbeb7d45cc46e878"
    )


def test_a_served_file_is_compressed_the_same_way_every_time() -> None:
    one, other = read_assets(), read_assets()
    assert one == other
    assert all(gzip.decompress(asset.compressed) == asset.content for asset in one.values())


def test_a_token_becomes_a_cookie_that_no_script_reads(client: TestClient, token: str) -> None:
    assert client.get("/v1/caller").status_code == 401
    answer = client.post("/login", json={"token": token}, headers=ORIGIN)
    cookie = answer.headers["set-cookie"]
    assert all(part in cookie for part in ("HttpOnly", "SameSite=strict", "Path=/", "Max-Age=604800"))
    assert "Secure" not in cookie
    assert client.get("/v1/caller").json()["agent"] == "ada"
    assert client.post("/v1/memories", json={"text": "The owl nests in the tower."}, headers=ORIGIN).status_code == 201
    assert client.post("/logout", headers=ORIGIN).status_code == 200
    assert client.get("/v1/caller").status_code == 401


def test_behind_tls_the_cookie_is_sent_over_tls_only(stores: CallerStores, token: str) -> None:
    app = build_app(stores, StoreTokenSource(stores), ["https://testserver"])
    with TestClient(app) as client:
        answer = client.post("/login", json={"token": token}, headers={"Origin": "https://testserver"})
        assert "Secure" in answer.headers["set-cookie"]


def test_the_cookie_is_not_the_token_and_a_copy_of_it_ends_with_signing_out_on_every_server(
    stores: CallerStores, token: str, place: str
) -> None:
    elsewhere = CallerStores(place, Caller(), embedder="hash")
    one, other = (TestClient(build_app(each, StoreTokenSource(each), ["testserver"])) for each in (stores, elsewhere))
    one.post("/login", json={"token": token}, headers=ORIGIN)
    (name, copied), *_ = one.cookies.items()
    assert token not in copied
    other.cookies.set(name, copied)
    assert other.get("/v1/caller").json()["agent"] == "ada"
    assert other.get("/v1/stats", headers={"Authorization": f"Bearer {copied}"}).status_code == 401
    assert one.post("/logout", headers=ORIGIN).status_code == 200
    assert other.get("/v1/caller").status_code == 401
    assert other.get("/login/status").json() == {"signed_in": False}
    one.cookies.set(name, token)  # nor does the token itself count in a cookie
    assert one.get("/v1/caller").status_code == 401
    elsewhere.close()


def test_signing_in_again_ends_the_session_before(client: TestClient, token: str) -> None:
    client.post("/login", json={"token": token}, headers=ORIGIN)
    (name, before), *_ = client.cookies.items()
    client.post("/login", json={"token": token}, headers=ORIGIN)
    assert client.get("/v1/caller").status_code == 200
    client.cookies.clear()
    client.cookies.set(name, before)
    assert client.get("/v1/caller").status_code == 401


@pytest.mark.parametrize("origin", ["https://testserver", "http://testserver:80", "ftp://testserver", "testserver"])
def test_a_page_of_another_scheme_or_port_is_of_another_origin(client: TestClient, token: str, origin: str) -> None:
    answer = client.post("/login", json={"token": token}, headers={"Origin": origin})
    assert (answer.status_code, answer.json()["code"]) == (403, "foreign_origin")
    headers = {"Origin": origin, "Authorization": f"Bearer {token}"}
    assert client.get("/v1/caller", headers=headers).status_code == 403


def test_a_wrong_token_gets_no_cookie(client: TestClient) -> None:
    answer = client.post("/login", json={"token": "lks_wrong"}, headers=ORIGIN)
    assert answer.status_code == 401
    assert "set-cookie" not in answer.headers
    assert answer.json()["next"]


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("POST", {}, 401),
        ("POST", {"Origin": "http://evil.example"}, 403),
        ("POST", {"Origin": "http://testserver", "Sec-Fetch-Site": "same-site"}, 401),
        ("POST", {"Origin": "http://testserver", "Sec-Fetch-Site": "cross-site"}, 401),
        ("POST", {"Sec-Fetch-Site": "none"}, 401),
        ("POST", {"Origin": "null"}, 403),
        ("POST", {"Origin": "http://testserver", "Sec-Fetch-Site": "same-origin"}, 201),
        ("GET", {"Sec-Fetch-Site": "cross-site"}, 401),
        ("GET", {"Sec-Fetch-Site": "same-site"}, 401),
        ("GET", {"Sec-Fetch-Site": "none"}, 200),
        ("GET", {"Sec-Fetch-Site": "same-origin"}, 200),
        ("GET", {}, 200),
    ],
)
def test_the_cookie_counts_only_from_pages_of_this_server(
    client: TestClient, token: str, method: str, headers: dict[str, str], status: int
) -> None:
    client.post("/login", json={"token": token}, headers=ORIGIN)
    body = {"json": {"text": f"Tower {len(headers)} has an owl of kind {status}."}} if method == "POST" else {}
    assert client.request(method, "/v1/memories", headers=headers, **body).status_code == status  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["/login", "/logout"])
def test_another_page_cannot_sign_a_person_in_or_out(client: TestClient, token: str, path: str) -> None:
    for headers in (
        {},
        {"Origin": "http://testserver", "Sec-Fetch-Site": "same-site"},
        {"Origin": "http://evil.example"},
    ):
        answer = client.post(path, json={"token": token}, headers=headers)
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers


def test_a_revoked_token_ends_the_session(client: TestClient, tokens: ApiTokens) -> None:
    client.post("/login", json={"token": tokens.add("eve", agent="eve")}, headers=ORIGIN)
    assert client.get("/v1/caller").status_code == 200
    tokens.revoke("eve")
    assert client.get("/v1/caller").status_code == 401
