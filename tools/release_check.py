"""Check a release before it is published: build it twice, compare, install it on each Python that is there, and use it.

    python tools/release_check.py --tools build/release/bin

The tools folder has the programs ``pyproject-build``, ``twine``, ``check-wheel-contents`` and ``cyclonedx-py``.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
WORK = ROOT / "build" / "release-check"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
MAX_WHEEL_BYTES = 20_000_000
SMOKE = """
import gzip, sys, time
began = time.perf_counter()
import lukasa
imported = time.perf_counter() - began
with lukasa.open(sys.argv[1], agent="smoke") as memory:
    assert memory.remember("The staging database is called heron.")
    assert memory.remember("Deploys run on Tuesday, after the smoke tests.")
    assert "Tuesday" in memory.recall("when do we deploy?").hits[0].text
with lukasa.open(sys.argv[1]) as memory:
    assert memory.verify().sound
with lukasa.open(sys.argv[2], agent="orion") as memory:
    assert memory.recall("when do we deploy?").hits[0].text == "Deploys run on Thursday."
print(f"import {1000 * imported:.0f} ms")
"""


def main() -> None:
    """Run every check; the first that fails ends the program."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tools", type=Path, required=True)
    tools: Path = parser.parse_args().tools.absolute()
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    first, second = build(tools, WORK / "first"), build(tools, WORK / "second")
    if digests(first) != digests(second):
        sys.exit(f"Two builds of the same source differ: {digests(first)} {digests(second)}")
    print("Two builds have the same bytes.")
    wheel = next(first.glob("*.whl"))
    run(tools / "twine", "check", "--strict", *map(str, sorted(first.iterdir())))
    run(tools / "check-wheel-contents", str(wheel))
    check_contents(first)
    pythons = {version: python for version in PYTHONS if (python := find_python(version))}
    versions = [check_install(version, python, wheel) for version, python in pythons.items()]
    missing = [version for version in PYTHONS if version not in versions]
    write_bill_of_materials(tools, versions[0])
    distribution = ROOT / "dist"
    shutil.rmtree(distribution, ignore_errors=True)
    shutil.copytree(first, distribution)
    print(f"Installed and used on Python {', '.join(versions)}; not there: {', '.join(missing) or 'none'}.")
    for name, digest in digests(distribution).items():
        print(f"{digest}  dist/{name}")


def run(*words: str | Path, **options: object) -> None:
    """Run a program; its failure ends the check."""
    print("$", Path(words[0]).name, *map(str, words[1:]))
    subprocess.run([str(word) for word in words], check=True, **options)  # type: ignore[call-overload]


def build(tools: Path, out: Path) -> Path:
    """Build sdist and wheel from the committed source, with the time of the last commit in every archive."""
    source = out.with_name(f"{out.name}-source")
    source.mkdir()
    archive = out.with_suffix(".tar")
    run("git", "archive", "--output", str(archive), "HEAD", cwd=ROOT)
    with tarfile.open(archive) as members:
        members.extractall(source, filter="data")
    when = subprocess.run(
        ["git", "log", "-1", "--format=%ct"],  # noqa: S607
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    run(tools / "pyproject-build", "--outdir", str(out), str(source), env={**os.environ, "SOURCE_DATE_EPOCH": when})
    return out


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file of a folder."""
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())}


def check_contents(folder: Path) -> None:
    """Check what is in the wheel and in the sdist, and what is not."""
    wheel = next(folder.glob("*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    needed = ("lukasa/py.typed", "lukasa/aio.pyi", "lukasa/storage/sqlite/migrations/0008_schema.sql")
    for name in needed:
        if name not in names:
            sys.exit(f"The wheel lacks {name}.")
    strange = [name for name in names if not name.startswith(("lukasa/", "lukasa-"))]
    if strange:
        sys.exit(f"The wheel holds what does not belong there: {strange[:5]}")
    if wheel.stat().st_size > MAX_WHEEL_BYTES:
        sys.exit(f"The wheel has {wheel.stat().st_size:,} bytes, more than {MAX_WHEEL_BYTES:,}.")
    with tarfile.open(next(folder.glob("*.tar.gz"))) as sdist:
        inside = {name.partition("/")[2] for name in sdist.getnames()}
    for name in ("LICENSE", "README.md", "CHANGELOG.md", "src/lukasa/__init__.py"):
        if name not in inside:
            sys.exit(f"The source distribution lacks {name}.")


def find_python(version: str) -> str | None:
    """Return the program of a Python version, if there is one that runs."""
    folders = [os.environ["PATH"], *map(str, Path.home().glob(f".pyenv/versions/{version}.*/bin"))]
    for folder in os.pathsep.join(folders).split(os.pathsep):
        python = shutil.which(f"python{version}", path=folder)
        if python and not subprocess.run([python, "-c", ""], capture_output=True).returncode:
            return python
    return None


def check_install(version: str, python: str, wheel: Path) -> str:
    """Install the wheel into an empty environment of one Python, and use it on a new store and on an earlier one."""
    venv, began = WORK / f"venv-{version}", time.monotonic()
    run(python, "-m", "venv", str(venv))
    run(venv / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(wheel))
    earlier = WORK / f"earlier-{version}.db"
    packed = max((ROOT / "tests" / "storage" / "stores").glob("schema_*.db.gz"))
    earlier.write_bytes(gzip.decompress(packed.read_bytes()))
    script = WORK / "smoke.py"
    script.write_text(SMOKE)
    run(venv / "bin" / "python", str(script), str(WORK / f"new-{version}.db"), str(earlier), cwd=WORK)
    run(venv / "bin" / "lukasa", "--version", cwd=WORK)
    size = sum(file.lstat().st_size for file in venv.rglob("*") if file.is_file() and not file.is_symlink())
    print(f"Python {version}: works, {size / 1e6:,.0f} MB with pip, {time.monotonic() - began:.0f} s")
    return version


def write_bill_of_materials(tools: Path, version: str) -> None:
    """Write the packages of a clean installation as a CycloneDX document next to the distributions."""
    python = WORK / f"venv-{version}" / "bin" / "python"
    out = WORK / "first" / "sbom.cdx.json"
    run(tools / "cyclonedx-py", "environment", "--output-reproducible", "--output-file", str(out), str(python))


if __name__ == "__main__":
    main()
