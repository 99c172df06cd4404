"""Look up the pinned packages in public advisory databases, with pip-audit.

    make audit

Exits with 1 when a pinned version has a known vulnerability. Where no database can be reached, one sentence says so.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

PINS = Path(__file__).resolve().parent.parent / "constraints.txt"
DATABASES = ("pypi", "osv")


def run_audit(program: str, database: str) -> dict[str, Any] | None:
    """Return the report of pip-audit, or ``None`` if the database did not answer."""
    words = [program, "-r", str(PINS), "--no-deps", "--disable-pip", "--format", "json", "-s", database]
    done = subprocess.run(words, capture_output=True, check=False, timeout=600)
    try:
        report: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        return None
    return report if any("skip_reason" not in package for package in report["dependencies"]) else None


def describe_report(report: dict[str, Any] | None) -> tuple[list[str], int]:
    """Return the lines to print for a report, and the exit code."""
    if report is None:
        return ["No advisory database can be reached from here; no package was checked."], 0
    packages = report["dependencies"]
    found = [
        f"{package['name']} {package['version']}: {advisory['id']}, fixed in {', '.join(advisory['fix_versions']) or '–'}"
        for package in packages
        for advisory in package.get("vulns", ())
    ]
    checked = sum("skip_reason" not in package for package in packages)
    summary = f"{checked} of {len(packages)} pinned packages were checked, {len(found)} known vulnerabilities."
    return [*found, summary], 1 if found else 0


def main(program: str) -> int:
    """Ask the databases in turn until one answers, and print what it knows."""
    reports = (run_audit(program, database) for database in DATABASES)
    lines, code = describe_report(next((report for report in reports if report is not None), None))
    print("\n".join(lines))
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
