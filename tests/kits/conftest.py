from pathlib import Path

import pytest
from kits.made import Made, federation_in


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return federation_in(tmp_path)
