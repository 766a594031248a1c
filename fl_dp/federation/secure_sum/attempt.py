"""The server's side of one attempt: its stages, one after the other."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from flwr.app import Message, RecordDict

from fl_dp.clean_text import one_line
from fl_dp.errors import ConfigError, FederationError, FlDpError
from fl_dp.federation.secure_sum import wire
from fl_dp.federation.secure_sum.summing import SecureSum
from fl_dp.federation.wire.messages import ARRAYS, PLAN, REFUSAL, REPORT, SPENT
from fl_dp.federation.wire.send_receive import BaseGrid, ask, require_answer

Take = Callable[[str, Mapping[str, Any]], None]
KEY_SECONDS = 60.0  # the most for a stage in which nobody trains, waits for an operator, or has paid
# The largest part of the round's remaining time that each stage may take, so that the round ends in time.
_PARTS = {
    wire.ADVERTISE: 0.25,
    wire.SHARE: 0.25,
    wire.MASK: 0.75,
    wire.CONFIRM: 0.4,
    wire.OPEN: 0.9,
}
_LEAST_SECONDS = 0.1
_SAID = {wire.STAGE, wire.SAID}  # the records of an answer, but for the masked vector's


@dataclass(slots=True)
class Attempt:
    """sums: the protocol's server. nodes: by site; questions: by site, the round's message to it.

    until: when the round ends, by the monotonic clock. reports: the members' answers after masking, without
    the vector; refusals: answers of sites that refused.
    """

    grid: BaseGrid
    sums: SecureSum
    nodes: Mapping[str, int]
    questions: Mapping[str, RecordDict]
    group: str
    until: float
    reports: dict[str, RecordDict] = field(default_factory=dict)
    refusals: dict[str, RecordDict] = field(default_factory=dict)

    def play(self) -> None:
        """Run all stages, after which `sums.total` gives the sum; SumLostError if there is none."""
        sums, threshold, questions = self.sums, self.sums.head.threshold, self.questions
        plans = {site: {PLAN: content[PLAN]} for site, content in questions.items()}
        head = sums.head.to_fields()
        self._stage(wire.ADVERTISE, dict.fromkeys(sums.here(), head), sums.take_advertisement, plans)
        terms = sums.terms().to_fields()
        self._stage(wire.SHARE, dict.fromkeys(sums.here(), terms), sums.take_sharing)
        inboxes = {site: sums.inbox(site).to_fields() for site in sums.here()}
        whole = {site: {**plans[site], ARRAYS: questions[site][ARRAYS]} for site in inboxes}
        self._stage(wire.MASK, inboxes, sums.take_masked, whole)
        said = sums.survivors().to_fields()  # drops the members that have not masked
        survivors = dict.fromkeys(sums.here(), said)
        self._stage(wire.CONFIRM, survivors, sums.take_confirmation, enough=threshold)
        confirmations = dict.fromkeys(survivors, sums.confirmations().to_fields())
        self._stage(wire.OPEN, confirmations, sums.take_opening, enough=threshold)

    def _stage(
        self,
        stage: str,
        said: Mapping[str, Mapping[str, Any]],
        take: Take,
        records: Mapping[str, Mapping[str, Any]] | None = None,
        enough: int = 0,
    ) -> None:
        """Ask, and take in answers as they come, until all or `enough` are there, or time is up.

        said: by site, the fields of its message; records: by site, further records of it.
        """
        seconds, valid, messages = self._seconds(stage), dict[str, bool](), dict[str, Message]()
        for site, fields in said.items():
            content = wire.staged(stage, fields, **(records or {}).get(site, {}))
            messages[site] = Message(
                content, self.nodes[site], wire.SECURE_SUM, ttl=seconds, group_id=self.group
            )
        # A slow member still reads its question. Without it, it would not understand the next one.
        answers = ask(
            self.grid,
            messages,
            seconds,
            lambda missing, waited: 0 < enough <= sum(valid.values()),
            leave_open=True,
        )
        for site, reply in answers:
            valid[site] = self._take(stage, site, messages[site], reply, take)
        for site in messages.keys() - valid.keys() if not enough else ():
            is_there = self.grid.site_of(self.nodes[site])
            self.sums.drop(
                site, f"it did not answer within {seconds:g} s" if is_there else "it is no longer connected"
            )

    def _seconds(self, stage: str) -> float:
        """The time limit of the stage; it leaves time for later stages even if a member is silent.

        After the masks a slow member has until the round ends. Without it the sum may be lost, and paid for.
        If it is not needed any more, it still learns that its sum was opened (`LostRounds`).
        """
        part = _PARTS[stage] * (self.until - time.monotonic())
        return max(_LEAST_SECONDS, min(KEY_SECONDS, part) if stage == wire.SHARE else part)

    def _take(self, stage: str, site: str, question: Message, reply: Message, take: Take) -> bool:
        """Take in an answer; returns whether it was valid. An unreadable answer drops the member."""
        try:
            content = require_answer(reply, question)
            if REFUSAL in content:
                self.refusals[site] = RecordDict({REFUSAL: content[REFUSAL]})
                raise FederationError(str(content[REFUSAL].get("reason", "it gave no reason")))
            reports = (REPORT, SPENT)
            expected = {*reports, ARRAYS} if stage == wire.MASK else _SAID
            if set(content) != expected:
                raise FederationError(f"an answer with other records than {sorted(expected)}")
            if stage == wire.MASK:
                vector = wire.vector_of(content, ARRAYS, self.sums.head.numbers)
                take(site, {"vector": vector})
                self.reports[site] = RecordDict({name: content[name] for name in reports})
            elif wire.stage_of(content) == stage:
                take(site, wire.said(content))
            else:
                raise ConfigError("an answer to another stage")
        except FlDpError as error:
            self.sums.drop(site, one_line(str(error)))
        return site not in self.sums.dropped
