"""One signature holds for one request of one site, once."""

import pytest

from fl_dp.federation.link import signed_request
from fl_dp.federation.link.signed_request import (
    DIGEST,
    KEY,
    NONCE,
    SIGNATURE,
    TIME,
    WINDOW,
    RequestCheck,
    RequestRefusedError,
    sign_request,
)
from fl_dp.kits.keys import SigningKey

BODY = b"a message"
PATH = "/v1/fleet/pull-messages"
OWN = SigningKey.generate()


DAY = 86_400.0


def headers() -> dict[str, str]:
    return sign_request(OWN, "study", "POST", PATH, BODY)


def headers_at(seconds: float) -> dict[str, str]:
    return sign_request(OWN, "study", "POST", PATH, BODY, lambda: seconds)


@pytest.mark.parametrize(
    ("method", "path", "federation"),
    [("GET", PATH, "study"), ("POST", "/v1/fleet/push-messages", "study"), ("POST", PATH, "another")],
)
def test_it_holds_for_nothing_else(method: str, path: str, federation: str) -> None:
    with pytest.raises(RequestRefusedError, match="not signed") as refused:
        RequestCheck(federation).signer(method, path, headers())
    assert refused.value.status == 401


@pytest.mark.parametrize("name", [KEY, TIME, NONCE, DIGEST, SIGNATURE])
@pytest.mark.parametrize("value", [None, "", "0" * 64, "nan", "1e400"])
def test_no_header_may_be_another(name: str, value: str | None) -> None:
    made = headers()
    if value is None:
        del made[name]
    else:
        made[name] = value
    with pytest.raises(RequestRefusedError, match="not signed"):
        RequestCheck("study").signer("POST", PATH, made)


def test_a_clock_that_is_far_off_is_named_and_a_little_does_no_harm() -> None:
    made = headers()
    for off, words in ((WINDOW + 5, "behind"), (-WINDOW - 5, "ahead of"), (WINDOW - 5, ""), (5 - WINDOW, "")):
        check = RequestCheck("study", lambda off=off: float(made[TIME]) + off)  # type: ignore[misc]
        if not words:
            assert check.signer("POST", PATH, made) == OWN.public
            continue
        with pytest.raises(RequestRefusedError, match=f"your clock is 305 s {words} the server's; set it"):
            check.signer("POST", PATH, made)


@pytest.mark.parametrize("jump", [DAY, -DAY, 0.0])
def test_a_server_whose_clock_is_set_goes_on_with_sites_of_either_time(jump: float) -> None:
    """It was right and is wrong now, or the other way round."""
    made = headers()
    began = float(made[TIME])
    wall, steady = began, 50.0
    check = RequestCheck("study", lambda: wall, lambda: steady)
    wall = began + jump
    assert check.signer("POST", PATH, made) == OWN.public
    assert check.signer("POST", PATH, headers_at(began + jump)) == OWN.public
    steady += WINDOW + 5
    wall += WINDOW + 5
    with pytest.raises(RequestRefusedError, match="305 s behind"):
        check.signer("POST", PATH, headers_at(began + jump))


def test_a_request_is_answered_once_for_as_long_as_its_time_would_pass() -> None:
    now = 1e9
    check = RequestCheck("study", steady=lambda: now)
    check.take(OWN.public, "nonce")
    for later in (0.0, WINDOW, 2 * WINDOW):
        now = 1e9 + later
        with pytest.raises(RequestRefusedError, match="answered before"):
            check.take(OWN.public, "nonce")
    now = 1e9 + 2 * WINDOW + 2  # sent as late as may be, it would be too old
    check.take(OWN.public, "nonce")


def test_memory_of_nonces_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signed_request, "_MOST_SEEN", 2)
    check = RequestCheck("study", steady=lambda: 0.0)
    check.take(OWN.public, "one")
    check.take(OWN.public, "two")
    with pytest.raises(RequestRefusedError, match="too many") as refused:
        check.take(OWN.public, "three")
    assert refused.value.status == 429
    check.take(SigningKey.generate().public, "one")  # what one site uses up is not another's


def test_a_nonce_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda number: "0" * 60_000)
    with pytest.raises(RequestRefusedError, match="not signed"):
        RequestCheck("study").signer("POST", PATH, headers())
