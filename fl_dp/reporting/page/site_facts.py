"""statements.json, read for people: who has said what of which data, and whether a signature fits."""

from collections.abc import Mapping
from typing import Any

from fl_dp.clean_text import clean
from fl_dp.config.files import read_json
from fl_dp.errors import ConfigError
from fl_dp.kits.signed import signature_of, speaks_of_another
from fl_dp.reporting.page.facts import DataSet, Site
from fl_dp.reporting.page.round_facts import natural
from fl_dp.reporting.reports import epsilon_from_json
from fl_dp.reporting.run_folder import RunFolder
from fl_dp.statements import AccountStatement, Stated, Statement, stated_in


def read_sites(folder: RunFolder, summary: Mapping[str, Any] | None) -> tuple[Site, ...]:
    """What statements.json says, nothing where there is none. summary: whose run and model they must name.

    ConfigError where the file has another form. A statement that cannot be read is shown as one.
    """
    if not folder.statements.exists():
        return ()
    found = stated_in(read_json(folder.statements), str(folder.statements))
    return tuple(sorted((_site(one, summary) for one in found), key=_order))


def _order(site: Site) -> tuple[Any, ...]:
    return (natural(site.data[0].client) if site.data else (0.0, ""), site.commitment)


def _site(found: Stated, summary: Mapping[str, Any] | None) -> Site:
    signed = signature_of(found)
    try:
        said = Statement.from_text(found.text)
    except ConfigError as error:
        return Site((), "", clean(found.key), signed, 0, "", clean(error))
    others = " and ".join(speaks_of_another(said, summary))
    return Site(
        data=tuple(_data(one) for one in sorted(said.accounts, key=lambda one: natural(one.client))),
        commitment=said.commitment,
        key=clean(found.key),
        signed=signed,
        retired=said.retired,
        date=clean(said.date),
        problem=f"speaks of another {others}" if others else "",
        one_run_ledger=said.one_run_ledger,
    )


def _data(account: AccountStatement) -> DataSet:
    return DataSet(
        client=clean(account.client),
        name=clean(account.data),
        kind=clean(account.kind),
        unit=clean(account.unit),
        public_size=account.public_size,
        epsilon=epsilon_from_json(account.epsilon),
        arithmetic=account.arithmetic,
        delta=account.delta,
        budget=account.budget,
    )
