"""A client's part in a secure sum: answers each stage's message by the client's own settings.

    stage       condition                                                      answer
    advertise   plan and numbers of the sum are within the client's policy     fresh keys
    share       all members are in the client's own kit                        key shares, and a signature
    mask        all have signed the same; its key shares can be read           pays, trains one step, masks
    confirm     enough members are in the sum                                  a signature, once
    open        enough have signed the same                                    key shares, once

Nothing is paid for before the third stage. Between stages the state goes to the client's own loop, beside the
answer, and never to the disk: a client that ends has dropped out.
"""

from collections.abc import Callable
from functools import partial

from flwr.app import ConfigRecord, Message, RecordDict

from fl_dp.clean_text import one_line
from fl_dp.config.client import ClientConfig
from fl_dp.errors import DeclinedError
from fl_dp.federation.client.answers import noted, trained_round
from fl_dp.federation.client.approval import require_approval
from fl_dp.federation.client.journal import Note
from fl_dp.federation.client.lost_rounds import LostRounds
from fl_dp.federation.client.own_training import MaskedTraining
from fl_dp.federation.client.payment import AcceptedRound
from fl_dp.federation.client.policy import MAX_RUN_NAME, check_plan
from fl_dp.federation.client.registration import task_identity
from fl_dp.federation.client.round import ClientRounds
from fl_dp.federation.secure_sum import wire
from fl_dp.federation.secure_sum.limits import Identity, Limits
from fl_dp.federation.secure_sum.messages import Confirmations, Inbox, Survivors
from fl_dp.federation.secure_sum.participant import Participant
from fl_dp.federation.secure_sum.terms import Head, Terms, check_head
from fl_dp.federation.secure_sum.wire import common_plan
from fl_dp.federation.wire.messages import REFUSAL, plan_only
from fl_dp.records import RoundPlan
from fl_dp.tasks import records

Answer = tuple[RecordDict, Participant | None]


def take_part(message: Message, config: ClientConfig, identity: Identity, kept: bytes) -> RecordDict:
    """The answer to a stage's message, and beside it the state for the next stage (`wire.take_kept`).

    kept: the state from the previous stage. After an exception no state is kept, so the attempt has ended for
    this client.
    """
    stage = wire.stage_of(message.content)
    answer, participant = _STAGES[stage](message, config, identity, kept)
    if participant is not None:
        answer[wire.KEPT] = ConfigRecord({"content": participant.to_bytes()})
    return answer


def limits_of(config: ClientConfig) -> Limits:
    return Limits(
        least_clients=config.allow_secure_sum,
        least_colluders=config.secure_least_colluders,
        most_dropouts=config.secure_most_dropouts,
    )


def _advertise(message: Message, config: ClientConfig, identity: Identity, kept: bytes) -> Answer:
    head = Head.from_fields(wire.said(message.content))
    _accept(plan_only(message.content), config, head)
    participant, advertisement = Participant.begin(head, limits_of(config), identity.key)
    return wire.staged(wire.ADVERTISE, advertisement.to_fields()), participant


def _accept(plan: RoundPlan, config: ClientConfig, head: Head) -> None:
    note = Note(config.ledger, config.client)
    with noted(note), ClientRounds.open(config) as rounds:
        note.learn(run=one_line(plan.run, MAX_RUN_NAME), round=plan.server_round)
        client = rounds.known(config) or rounds.register([(config, records.load_part(config))])[0]
        check_plan(plan, config, client.public_size, task_identity(config))
        _check_head(head, plan)
        check_head(head, limits_of(config))
        accepted = AcceptedRound(client.dataset, client, plan)
        LostRounds.of(config).check()
        rounds.require_room(accepted)
        if config.approve:
            require_approval(accepted, rounds.ledger.spent(client.dataset))


def _share(message: Message, config: ClientConfig, identity: Identity, kept: bytes) -> Answer:
    participant = Participant.from_bytes(kept, identity.key)
    terms = Terms.from_fields(wire.said(message.content))
    sharing = participant.share(terms, limits_of(config), identity.roster)
    return wire.staged(wire.SHARE, sharing.to_fields()), participant


def _mask(message: Message, config: ClientConfig, identity: Identity, kept: bytes) -> Answer:
    participant, lost = Participant.from_bytes(kept, identity.key), LostRounds.of(config)
    participant.accept(Inbox.from_fields(wire.said(message.content)))
    if common_plan(plan_only(message.content)) != participant.head.plan:
        raise DeclinedError("the round's plan is not the one that the members of its secure sum signed.")
    lost.check()
    answer = trained_round(message, config, partial(MaskedTraining, participant=participant, lost=lost))
    return answer, None if REFUSAL in answer else participant


def _confirm(message: Message, config: ClientConfig, identity: Identity, kept: bytes) -> Answer:
    participant = Participant.from_bytes(kept, identity.key)
    confirmation = participant.confirm(Survivors.from_fields(wire.said(message.content)))
    return wire.staged(wire.CONFIRM, confirmation.to_fields()), participant


def _open(message: Message, config: ClientConfig, identity: Identity, kept: bytes) -> Answer:
    participant = Participant.from_bytes(kept, identity.key)
    opening = participant.open(Confirmations.from_fields(wire.said(message.content)))
    LostRounds.of(config).opened()
    return wire.staged(wire.OPEN, opening.to_fields()), None


_STAGES: dict[str, Callable[[Message, ClientConfig, Identity, bytes], Answer]] = {
    wire.ADVERTISE: _advertise,
    wire.SHARE: _share,
    wire.MASK: _mask,
    wire.CONFIRM: _confirm,
    wire.OPEN: _open,
}


def _check_head(head: Head, plan: RoundPlan) -> None:
    """DeclinedError unless head and plan agree in everything that can be checked without the model."""
    for what, found, asked in (
        ("run", head.run, plan.run),
        ("round", head.server_round, plan.server_round),
        ("plan", head.plan, common_plan(plan)),
        ("clipping bound", head.max_grad_norm, plan.max_grad_norm),
        ("noise multiplier", head.noise_multiplier, plan.noise_multiplier),
        ("shares of noise", head.shares, plan.shares),
    ):
        if found != asked:
            raise DeclinedError(
                f"a secure sum with {what} {found!s:.40}, the round's plan has {asked!s:.40}."
            )
