"""statements.json, read for people: who has said what of which data, and whether a signature fits."""

from typing import Any

from fl_dp.config.files import read_json
from fl_dp.errors import ConfigError
from fl_dp.kits.keys import is_signed
from fl_dp.reporting.page.clean import clean
from fl_dp.reporting.page.facts import DataSet, Site
from fl_dp.reporting.page.round_facts import finite, natural
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.statements import PURPOSE, AccountStatement, Statement


def read_sites(folder: RunFolder, *, run: str, weights: str) -> tuple[Site, ...]:
    """What statements.json says, nothing where there is none. run, weights: what a statement must name.

    ConfigError where the file has another form. A statement that cannot be read is shown as one.
    """
    if not folder.statements.exists():
        return ()
    found = read_json(folder.statements)
    rows = found.get("statements") if isinstance(found, dict) else None
    if not isinstance(rows, list) or not all(_has_form(one) for one in rows):
        raise ConfigError(f"{folder.statements}: is damaged: it holds no list of statements.")
    return tuple(sorted((_site(one, run, weights) for one in rows), key=_order))


def _has_form(found: Any) -> bool:
    return isinstance(found, dict) and all(
        isinstance(found.get(k), str) for k in ("text", "key", "signature")
    )


def _order(site: Site) -> tuple[Any, ...]:
    return (natural(site.data[0].client) if site.data else (0.0, ""), site.commitment)


def _site(found: dict[str, str], run: str, weights: str) -> Site:
    signed = _signed(found)
    try:
        said = Statement.from_text(found["text"])
    except ConfigError as error:
        return Site((), "", clean(found["key"]), signed, 0, "", clean(error))
    return Site(
        data=tuple(_data(one) for one in sorted(said.accounts, key=lambda one: natural(one.client))),
        commitment=said.commitment,
        key=clean(found["key"]),
        signed=signed,
        retired=said.retired,
        date=clean(said.date),
        problem=_problem(said, run, weights),
    )


def _signed(found: dict[str, str]) -> str:
    if not found["key"] and not found["signature"]:
        return "no"
    try:
        signature = bytes.fromhex(found["signature"])
        fits = is_signed(found["key"], PURPOSE, found["text"].encode(), signature)
    except ValueError:
        fits = False
    return "yes" if fits else "wrong"


def _problem(said: Statement, run: str, weights: str) -> str:
    if run and said.run != run:
        return "speaks of another run"
    if weights and said.weights != weights:
        return "speaks of another model"
    return ""


def _data(account: AccountStatement) -> DataSet:
    return DataSet(
        client=clean(account.client),
        name=clean(account.data),
        unit=clean(account.unit),
        public_size=account.public_size,
        epsilon=finite(account.epsilon),
        delta=account.delta,
        budget=account.budget,
    )
