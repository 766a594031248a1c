"""A copy of samples to work on: keys that others may read are refused, and Git keeps no such permissions."""

import shutil
from pathlib import Path


def private_copy(samples: Path, folder: Path) -> Path:
    """`samples`, copied to the new `folder`, which is returned; only its owner may read it."""
    shutil.copytree(samples, folder)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return folder
