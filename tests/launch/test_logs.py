import logging
import os

from fl_dp.errors import CallError, LedgerError, TaskError
from fl_dp.launch.logs import causes_in, log_files


def test_a_logger_has_its_own_file_which_its_owner_alone_may_read_and_is_afterwards_as_it_was(tmp_path):
    logger, umask = logging.getLogger("one"), os.umask(0)
    before = logger.propagate, logger.level, list(logger.handlers)
    try:
        with log_files({"one": tmp_path / "1.log", "two": tmp_path / "2.log"}):
            assert not logger.propagate
            logger.info("first")
            logging.getLogger("two.deep").warning("second")
    finally:
        os.umask(umask)
    assert (tmp_path / "1.log").read_text().endswith("INFO first\n")
    assert (tmp_path / "2.log").read_text().endswith("WARNING second\n")
    assert [path.stat().st_mode & 0o777 for path in sorted(tmp_path.iterdir())] == [0o600, 0o600]
    assert (logger.propagate, logger.level, list(logger.handlers)) == before


def test_causes_are_kept_once_and_in_our_own_words_alone():
    logger = logging.getLogger("of clients")
    with causes_in("of clients") as causes:
        ours = LedgerError("is entered as a")
        quoting = CallError("The model raised.", "row 7")
        for error in (ours, ours, TaskError("row 7"), quoting, ValueError("63")):
            logger.error("a message could not be answered", exc_info=error)
        logger.error("no error at all")
    logger.error("later", exc_info=LedgerError("b"))
    assert causes.words == ["is entered as a", "The model raised."]
