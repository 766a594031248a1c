"""Every file that a command reads, cut off, overwritten, with wrong and huge values: our own error or none.

Each reader gets a sound file first; then changed ones, from a fixed seed. A huge claim that takes memory ends
in a MemoryError, which is none of ours.
"""

import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
import torch
from safetensors.torch import save_file

from fl_dp.accounting.ledger.export import read_export, to_export
from fl_dp.accounting.ledger.ledger import Ledger
from fl_dp.accounting.ledger.requests import DataDeclaration
from fl_dp.config.client import ClientConfig
from fl_dp.config.run import RunConfig
from fl_dp.data.source import Reading
from fl_dp.data.sources.npz import load_npz
from fl_dp.data.sources.text import load_text
from fl_dp.data.tables.encode import encode
from fl_dp.data.tables.files import read_csv, read_parquet
from fl_dp.data.tables.parse import read_schema
from fl_dp.errors import FlDpError
from fl_dp.federation.client.approval import pending
from fl_dp.launch.resumption import Launch
from fl_dp.models.start import load_start
from fl_dp.models.weights_file import load_weights
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.tasks.description import ModelDescription
from fl_dp.training.kept import read_state

SCHEMA = """
missing = ["", "?"]
split = "none"
[columns.age]
kind = "number"
range = [0, 100]
[columns.sex]
kind = "category"
categories = ["f", "m"]
[columns.ill]
kind = "label"
classes = ["no", "yes"]
"""
CSV = "age,sex,ill\n" + "".join(f"{20 + i},{'fm'[i % 2]},{['no', 'yes'][i % 3 > 1]}\n" for i in range(30))
DESCRIPTION = {
    "task": "",
    "identity": "",
    "model": "linear",
    "loss": "cross-entropy",
    "data": "digits",
    "schema": "",
    "date": "2026-01-01",
    "version": "1",
    "classes": ["a", "b"],
    "form": {"input_shape": [3], "outputs": 2, "targets": "class", "vocabulary": 0},
}
STATE = {"own": {"w": torch.ones(3)}, "run": "r", "private": True, "optimizer": {0: {"step": 1}}}
WORDS = [b"9" * 30, b"1e300", b"-1", b"null", b"[]", b"{}", b"\xff", b"", b'"x"', b"nan", b"[" * 3000, b"\0"]


@dataclass(frozen=True)
class Reader:
    name: str
    write: Callable[[Path], Any]
    read: Callable[[Path], Any]


def _npz(path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    np.savez(path, x_train=x, y_train=np.arange(20) % 2, classes=np.array(["a", "b"]))


def _tokens(path: Path) -> None:
    x = np.arange(40).reshape(10, 4)
    np.savez(path, x_train=x, y_train=x, vocabulary=np.array(50), groups_train=np.arange(10))


def _parquet(path: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table({"age": list(range(20)), "sex": ["f", "m"] * 10}), path)


def _export(path: Path) -> None:
    with Ledger.open(path.with_name("ledger.sqlite")) as ledger:
        ledger.register_all([DataDeclaration("data", "f1", 10)])
        path.write_text(json.dumps(to_export(ledger.rows())))


def _table(path: Path) -> Any:
    schema = path.with_name("sound.schema.toml")
    schema.write_text(SCHEMA)
    return encode(read_csv(path), read_schema(schema), "train")


def _launch(path: Path) -> Any:
    path.replace(path.with_name("launch.toml"))
    return Launch.read(RunFolder(path.parent))


def _question(path: Path) -> Any:
    path.replace(path.with_name("ab.json"))
    return pending(path.parent)


def _text(path: Path) -> Any:
    return load_text(path, Reading(tokens=5), "train")


LAUNCH = 'engine = "ray"\nledgers = "ledgers"\nray-address = ""\n'
READERS = [
    Reader("config.toml", lambda p: p.write_text(tomli_w.dumps(RunConfig().to_flat())), RunConfig.from_toml),
    Reader(
        "client.toml",
        lambda p: p.write_text(tomli_w.dumps(ClientConfig(client="a", ledger="l").to_flat())),
        ClientConfig.from_toml,
    ),
    Reader("launch", lambda p: p.write_text(LAUNCH), _launch),
    Reader("people.schema.toml", lambda p: p.write_text(SCHEMA), read_schema),
    Reader("people.csv", lambda p: p.write_text(CSV), _table),
    Reader("people.parquet", _parquet, read_parquet),
    Reader("numbers.npz", _npz, lambda p: load_npz(p, "train")),
    Reader("tokens.npz", _tokens, lambda p: load_npz(p, "train")),
    Reader("text.txt", lambda p: p.write_text("to be or not " * 30), _text),
    Reader("model.pt", lambda p: torch.save({"w": torch.ones(4, 3), "b": torch.arange(3)}, p), load_weights),
    Reader(
        "model.safetensors",
        lambda p: save_file(torch.nn.Linear(4, 3).state_dict(), p),
        lambda p: load_start(torch.nn.Linear(4, 3), str(p)),
    ),
    Reader("kept.pt", lambda p: torch.save(STATE, p), lambda p: read_state(p.read_bytes())),
    Reader("model.json", lambda p: p.write_text(json.dumps(DESCRIPTION)), ModelDescription.read),
    Reader("export.json", _export, read_export),
    Reader("question", lambda p: p.write_text(json.dumps({"words": ["a", "b"]})), _question),
]


def changed(whole: bytes, random: np.random.Generator) -> bytes:
    """Cut off, overwritten, or with a number or a word in the place of another."""
    found = bytearray(whole[: random.integers(len(whole) + 1)] if random.random() < 0.2 else whole)
    for _ in range(random.integers(4)):
        place = int(random.integers(len(found) + 1))
        if random.random() < 0.5:
            found[place : place + 1] = random.bytes(1)
        else:
            found[place : place + int(random.integers(6))] = WORDS[random.integers(len(WORDS))]
    return bytes(found)


def changed_within(whole: bytes, random: np.random.Generator) -> bytes:
    """The same of one member of a zip, whose checksums are right again."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(whole)) as before, zipfile.ZipFile(made, "w") as after:
        names = before.namelist()
        hit = names[random.integers(len(names))]
        for name in names:
            content = before.read(name)
            after.writestr(name, changed(content, random) if name == hit else content)
    return made.getvalue()


@pytest.mark.filterwarnings("ignore")  # of libraries, over what they read
@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.name)
def test_whatever_a_file_holds_is_read_or_refused_in_words_of_ours(
    reader: Reader, tmp_path: Path, little_memory: None
) -> None:
    path = tmp_path / reader.name
    reader.write(path)
    whole = path.read_bytes()
    reader.read(path)
    random = np.random.default_rng(1)
    refused = 0
    for attempt in range(300):
        within = zipfile.is_zipfile(io.BytesIO(whole)) and attempt % 2
        path.write_bytes((changed_within if within else changed)(whole, random))
        try:
            reader.read(path)
        except FlDpError:
            refused += 1
    assert refused > 20


def test_a_tensor_that_repeats_its_bytes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    torch.save({"w": torch.ones(1).expand(2**40)}, path)
    assert path.stat().st_size < 2**12
    with pytest.raises(FlDpError, match="claims to be larger than its data"):
        load_weights(path)
