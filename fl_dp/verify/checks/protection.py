"""A run without privacy says so everywhere, and claims no epsilon."""

from fl_dp.verify.check import Check, Evidence, Found
from fl_dp.verify.claims import Claim, ClientClaim
from fl_dp.verify.reading import is_there

_NO_EPSILON = "no epsilon holds for data that were trained without protection"


def _run(evidence: Evidence, found: Found) -> None:
    private: set[bool] = set()
    for claim in evidence.claims():
        private.add(claim.private)
        if not claim.private:
            _check_unprotected(claim, found)
        for client in claim.clients.values():
            _check_client(client, claim, found)
    if len(private) > 1:
        found.differs(
            "some of it says that the run is private, and some that it is not",
            "",
            "one of the two was changed",
        )
    if len(private) == 1:
        _check_files(evidence, private == {True}, found)
    if private and not found.any_differ:
        ended = evidence.summary.clients.values() if evidence.summary else ()
        asked = (one for claim in evidence.rounds() for one in claim.clients.values())
        paid = any(one.cost.charges for one in ended) or any(one.own_steps for one in asked)
        steps = "every step had noise" if paid else "there was no step"
        found.agrees(
            f"the run is private: {steps}, and no file says otherwise"
            if private == {True}
            else "the run is NOT PRIVATE, says so everywhere, and claims no epsilon"
        )


def _check_unprotected(claim: Claim, found: Found) -> None:
    for value, what in ((claim.epsilon, "epsilon"), (claim.planned_epsilon, "planned epsilon")):
        if value is not None:
            found.differs(f"{what} {value:.4f} of a run without privacy", claim.where, _NO_EPSILON)


def _check_client(client: ClientClaim, claim: Claim, found: Found) -> None:
    unprotected = any(not one.private for one in client.charges or ())
    trained = not claim.private and (client.status == "trained" or client.rounds)
    if (unprotected or trained) and client.epsilon is not None:
        found.differs(f"epsilon {client.epsilon:.4f}", client.where, _NO_EPSILON)
    if claim.private and client.status == "trained" and unprotected:
        found.differs(
            "it trained in a private run, and its charges hold steps without noise", client.where,
            "its ledger would have declined: no epsilon holds for its data any more",
        )  # fmt: skip


def _check_files(evidence: Evidence, private: bool, found: Found) -> None:
    """The file name of a model without privacy says so."""
    other = evidence.folder.model(private=not private)
    if is_there(other):
        found.differs(
            f"{other.name} in a run that is {'' if private else 'not '}private", other.name,
            "the file's name says whether a model is private",
        )  # fmt: skip


CHECK = Check(place=4, run=_run)
