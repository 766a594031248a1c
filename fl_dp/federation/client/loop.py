"""The main loop of a real client: join, answer message after message, rejoin when the server is back."""

import json
import logging
import os
import time
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from flwr.app import Context, Message, RecordDict

from fl_dp.accounting.ledger.accounts import KINDS
from fl_dp.config.client import ClientConfig
from fl_dp.durable_files import open_private
from fl_dp.errors import FederationError
from fl_dp.federation.client.answers import CONFIG_KEY, HANDLERS, answer
from fl_dp.federation.client.final_model import keep_final_model
from fl_dp.federation.client.isolated import answered_apart
from fl_dp.federation.client.secure_member import take_part
from fl_dp.federation.link.site_link import LinkLostError, LinkRefusedError, SiteLink
from fl_dp.federation.secure_sum.terms import Head
from fl_dp.federation.secure_sum.wire import SECURE_SUM, take_kept
from fl_dp.federation.wire.messages import (
    FINAL_MODEL,
    REFUSAL,
    STATEMENT,
    config_record,
    refusal_to_content,
)
from fl_dp.records import Refusal, RoundPlan
from fl_dp.schema import warm
from fl_dp.statements import PURPOSE

logger = logging.getLogger("fl_dp.clients")

BEAT_SECONDS = 2.0  # between heartbeats while a round is trained
_MOST_LINES, _MINUTE = 30, 60.0  # for the operator: at most so many lines of each kind in so many seconds
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 10.0  # seconds between attempts to reach the server
_HANDLERS = HANDLERS | {FINAL_MODEL: keep_final_model}

Tell = Callable[[str, str], None]  # what happened, and words for the operator


def prepare_to_read() -> None:
    """Build the readers of messages and ledgers before processes are forked; the first use takes 0.1 s."""
    warm(RoundPlan, Head, *KINDS)


class ClientLoop:
    """The loop of one client. settings: its file. tell: called with what its operator should see.

    once: return when the first run is over; otherwise wait for the next. between: called between messages.
    """

    def __init__(
        self,
        link: SiteLink,
        settings: Path,
        tell: Tell,
        *,
        once: bool = False,
        between: Callable[[], None] = lambda: None,
    ) -> None:
        self._link, self._settings, self._tell, self._once = link, settings, tell, once
        self._between = between
        self._said = ""
        self._kept = b""  # the state of the current secure sum; in memory only
        self._pause = _FIRST_PAUSE
        self._joined = False
        self._end: LinkRefusedError | None = None  # set if the run ended while a message was being answered

    def run(self) -> None:
        """Answer until the run is over (`once`), or for ever. On SystemExit leave the server first."""
        try:
            self._run()
        except SystemExit:
            with suppress(LinkLostError, LinkRefusedError):
                self._link.leave()
            raise

    def _run(self) -> None:
        while True:
            try:
                self._join()
                while True:
                    self._answer_one()
            except LinkLostError as lost:
                self._say("lost", f"the server cannot be reached ({lost}); trying again")
            except LinkRefusedError as refused:
                if refused.is_over and self._joined:
                    self._say("over", "the run is over")
                    if self._once:
                        return
                elif not refused.has_lapsed:
                    self._say("refused", f"the server refuses: {refused.reason}; trying again")
            except FederationError as error:  # the kit may be repaired, or the right server come back
                self._say("not believed", f"{error}; trying again")
            except OSError as error:  # no process or pipe is left for an answer
                self._say("failed", f"this machine could not answer ({error.strerror}); trying again")
            self._joined = False
            time.sleep(self._pause)
            self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    def _join(self) -> None:
        if self._link.kit_has_ended:
            self._say(
                "ended", "this kit's roster has expired: accept a new one (fl-dp accept), and start again"
            )
            raise SystemExit(1)
        self._link.join()
        self._say("joined", "joined the server")
        self._joined, self._end = True, None

    def _answer_one(self) -> None:
        self._between()
        try:
            message = self._link.next_message()
        except FederationError as error:
            logger.error("%s: not answered", error)
            self._say("unsigned", f"a message could not be answered: {error}")
            time.sleep(_FIRST_PAUSE)  # otherwise a server could fill the log at line speed
            return
        self._pause = _FIRST_PAUSE  # not after a mere join: it could then rejoin twice a second for ever
        if message is None:
            return
        content = answered_apart(lambda: self._handled(message), self._beat, BEAT_SECONDS)
        kept = take_kept(content)  # for every kind of message: it must never leave
        if message.metadata.message_type == SECURE_SUM:
            self._kept = kept
        try:
            self._link.answer(message, content)
        except LinkRefusedError as refused:
            if not refused.is_late:
                raise
            self._say("late", "an answer came too late: the server no longer waits for it")
        if message.metadata.message_type == FINAL_MODEL:
            if (refusal := config_record(content, REFUSAL)) is None:
                self._say("model", "the final model was received")
            else:
                self._say("no model", f"the final model is not kept: {refusal['reason']!s}")
        if self._end is not None:
            raise self._end

    def _beat(self) -> None:
        """Send a heartbeat; a connection that is lost for a while does not end the training."""
        try:
            self._link.beat()
        except LinkLostError as lost:
            logger.warning("heartbeat failed: %s", lost)
        except LinkRefusedError as refused:
            logger.warning("heartbeat failed: %s", refused)
            self._end = refused if refused.is_over else self._end

    def _handled(self, message: Message) -> RecordDict:
        handlers = _HANDLERS | {SECURE_SUM: self._member}
        handle = handlers.get(message.metadata.message_type)
        if handle is None:
            return refusal_to_content(Refusal("failed", "it does not answer messages of this kind"))
        context = Context(
            run_id=message.metadata.run_id,
            node_id=message.metadata.dst_node_id,
            node_config={CONFIG_KEY: str(self._settings)},
            state=RecordDict(),
            run_config={},
        )
        return self._with_signature(answer(message, context, handle).content)

    def _member(self, message: Message, config: ClientConfig) -> RecordDict:
        """Answer a stage of a secure sum, from the state that the previous stage left."""
        return take_part(message, config, self._link.identity, self._kept)

    def _with_signature(self, content: RecordDict) -> RecordDict:
        """Sign a statement also by itself: it is read long after the message is gone."""
        record = config_record(content, STATEMENT)
        if record is not None:
            record["signature"] = self._link.sign(PURPOSE, str(record["text"]).encode())
        return content

    def _say(self, what: str, words: str) -> None:
        """Tell the operator, unless these were the last words, too."""
        if words != self._said:
            self._said = words
            logger.info("%s", words)
            self._tell(what, words)


def told_to(path: Path, client: str) -> Tell:
    """A `Tell` that writes lines to the file `path`, for the process that started the client.

    The lines of each kind are limited to so many a minute, because they may quote the server. If a line
    cannot be written, the client's log says so, and the client continues.
    """
    told: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_MOST_LINES))

    def tell(what: str, words: str) -> None:
        times = told[what]
        if len(times) == _MOST_LINES and time.monotonic() - times[0] < _MINUTE:
            return  # the client's log has it
        times.append(time.monotonic())
        line: dict[str, Any] = {"client": client, "pid": os.getpid(), "what": what, "words": words}
        try:
            with open_private(path, append=True) as file:
                file.write(json.dumps(line).encode() + b"\n")
        except OSError as error:
            logger.warning("%s: cannot be written (%s): %s", path, error.strerror, words)

    return tell
