"""The ledger for a training loop of one's own: it finds the account of the loop's records."""

import hashlib
from collections.abc import Iterable, Sized
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import Subset, TensorDataset

from fl_dp.accounting.accountant import DEFAULT_ACCOUNTANT
from fl_dp.accounting.budget import Budget, auto_delta
from fl_dp.accounting.ledger import ledger
from fl_dp.accounting.ledger.paying import PayingAccount
from fl_dp.accounting.ledger.requests import OF_FILES, DataDeclaration
from fl_dp.accounting.one_mechanism import OneMechanismBudget
from fl_dp.data.files_read import FilesRead
from fl_dp.data.source import files_of
from fl_dp.data.tensor_data import digests_of, fingerprint_of
from fl_dp.errors import ConfigError
from fl_dp.privacy_engine.counts import state_of


class Ledger(ledger.Ledger):
    """What the data on this machine have spent, over all runs, in one file on its disk.

    `fl_dp.Ledger.open(PATH)` opens the file, or creates it; without a path, the file that clients of this
    machine pay from (docs/ledger.md). `with` closes it. Several processes may have it open, and together they
    never overspend. `fl-dp run`, `fl-dp client` and `fl-dp ledger` use such files.

    Example:
        >>> import fl_dp, tempfile, torch
        >>> from torch.utils.data import TensorDataset
        >>> records = TensorDataset(torch.randn(1200, 4), torch.randint(2, (1200,)))
        >>> ledger = fl_dp.Ledger.open(f"{tempfile.mkdtemp()}/ehr.sqlite")
        >>> account = ledger.account("ehr-2026", records=records, epsilon=3.0, delta=1e-5)
        >>> account.left(sample_rate=0.1, noise_multiplier=1.0)
        Left(epsilon=3.0, steps=11)
        >>> account.spent().epsilon
        0.0
        >>> ledger.close()
    """

    def account(
        self,
        name: str,
        *,
        epsilon: float,
        delta: float | None = None,
        records: Sized | None = None,
        files: Iterable[str | Path] = (),
        size: int | None = None,
        accountant: str = DEFAULT_ACCOUNTANT,
        vary_mechanism: bool = False,
    ) -> PayingAccount:
        """The account of a data set, opened on its first use. This loop pays up to a limit over all runs.

        The ledger must recognise the data under any name: by `files` (their SHA-256 and their lines), or
        without files by the contents of `records`, a TensorDataset of inputs and targets or a Subset of one.

        Args:
            name: The data set's name, the same for every run on it. `fl-dp ledger show` prints the name that
                a client uses: its `data-name`, or `csv:` and the file's absolute path.
            epsilon: The limit, over all runs, of what this account may pay.
            delta: None for the largest power of ten below 1 / size, at most 1e-5.
            records: The data set that the loop's loader gets, or of which it gets a Subset.
            files: All files that hold the records.
            size: Their public number; None for that of `records`.
            accountant: One that may enforce a budget, "pld" or "rdp".
            vary_mechanism: Whether rate and noise may change after the first payment (docs/privacy.md).

        Raises:
            ConfigError: Nothing by which to recognise the data; a size or a budget out of range.
            LedgerError: Data that may share records with another account, or more than it declares.
        """
        if size is None:
            if records is None:
                raise ConfigError("account: give size=, the number of records, or records=.")
            size = len(records)
        if size < 1 or (records is not None and len(records) > size):
            raise ConfigError(f"account: expected size={size} of at least 1, and not below len(records).")
        if not name.strip():
            raise ConfigError("account: expected a name, the same for every run on these data.")
        kind = Budget if vary_mechanism else OneMechanismBudget
        budget = kind(epsilon, auto_delta(size) if delta is None else delta, accountant)
        declared = _declared(name, size, records, list(files))
        held = self.register_all([declared])[0]
        if size > held:
            raise ConfigError(
                f"account {name}: holds {held} records as its declared number, and size={size}. To declare "
                "more, retire it (fl-dp ledger retire); what is spent cannot be undone."
            )
        (opened,) = (held.id for held in self.accounts() if held.dataset == name and held.retired is None)
        known = declared.file_digests is None
        return PayingAccount(self, name, size, budget, records, known, opened, state_of(records))


def _declared(name: str, size: int, records: object, files: list[str | Path]) -> DataDeclaration:
    """What a client of a federation would declare of the same records, as far as a loop knows it."""
    tensors = _tensors_of(records)
    digests = [] if tensors is None else sorted(digests_of(*tensors))
    if files:
        read = files_of(map(Path, files))
        return DataDeclaration(
            name, _fingerprint(read), size, digests=lambda: digests, file_digests=read.digests
        )
    if tensors is None:
        raise ConfigError(
            "account: the ledger must know these data again. Give files=[...], all files that hold the "
            "records, or as records= a TensorDataset of inputs and targets."
        )
    return DataDeclaration(name, fingerprint_of(*tensors, digests), size, digests=lambda: digests)


def _fingerprint(read: FilesRead) -> str:
    contents = b"".join(sorted(digest for _, digest in read.state))
    return OF_FILES + hashlib.sha256(contents).hexdigest()


def _tensors_of(records: object) -> tuple[Tensor, Tensor] | None:
    """Inputs and targets of a TensorDataset of two, or of a Subset of one; None for anything else."""
    if isinstance(records, Subset):
        whole, rows = _tensors_of(records.dataset), torch.as_tensor(records.indices, dtype=torch.int64)
        return None if whole is None else (whole[0][rows], whole[1][rows])
    if isinstance(records, TensorDataset) and len(records.tensors) == 2:
        x, y = (one.detach().cpu() for one in records.tensors)
        return x, y
    return None
