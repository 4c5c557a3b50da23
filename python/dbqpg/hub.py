"""Trained policies by name, `hub:Hopper-v5`, from a hub: a directory or a server with the files of `make policies`."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pathlib
import tempfile
import urllib.request
import zipfile

SCHEME = "hub:"
RELEASES = "https://github.com/dbqpg/dbqpg/releases/latest/download"


def fetch(name: str) -> pathlib.Path:
    """Returns the run's directory of a policy, in the user's cache, where `learner` has it too.

    The hub is the directory or URL in the environment variable DBQPG_HUB, by default the project's releases. An archive
    is fetched unless the cache has the one with the hash in the hub's index.
    """
    hub = os.environ.get("DBQPG_HUB") or RELEASES
    policies = json.loads(_read(hub, "policies.json"))
    if name not in policies:
        raise FileNotFoundError(f"{SCHEME}{name}: {hub} has no such policy; it has {', '.join(sorted(policies))}")
    digest: str = policies[name]["sha256"]
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    directory = cache / "dbqpg" / os.path.basename(digest) / os.path.basename(name)
    if directory.exists():
        return directory
    archive = _read(hub, name + ".zip")
    if (found := hashlib.sha256(archive).hexdigest()) != digest:
        raise ValueError(f"{SCHEME}{name}: {name}.zip of {hub} has the SHA-256 {found}, not {digest}")
    directory.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory.parent) as work:
        zipfile.ZipFile(io.BytesIO(archive)).extractall(pathlib.Path(work, "run"))
        try:
            os.rename(pathlib.Path(work, "run"), directory)
        except OSError:
            if not directory.exists():  # another process was not faster
                raise
    return directory


def _read(hub: str, name: str) -> bytes:
    if "://" not in hub:
        return pathlib.Path(hub, name).read_bytes()
    with urllib.request.urlopen(f"{hub.rstrip('/')}/{name}", timeout=60) as response:
        return bytes(response.read())
