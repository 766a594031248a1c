"""Texts that name no file are refused by their key, wherever a config comes from."""

import pytest

from fl_dp.config.client import ClientConfig
from fl_dp.config.run import RunConfig
from fl_dp.errors import ConfigError


@pytest.mark.parametrize("key", ["data", "data-root", "schema", "start", "task", "out", "tokenizer"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("npz:a\0b", "without the character 0"),
        ("npz:a\udc80b", "expected a text in UTF-8"),
        ("npz:~no-such-user/a", "~no-such-user is no user here"),
        ("~no-such-user/a", "~no-such-user is no user here"),
        ("a" * 5000, "expected 4096 characters at most"),
    ],
)
def test_a_text_that_names_no_file_is_refused(key, text, words):
    with pytest.raises(ConfigError, match=rf"^{key} = .*{words}"):
        RunConfig.from_flat({key: text})


def test_a_clients_ledger_is_held_to_it_as_well():
    ClientConfig(client="a", ledger="~/ledger.sqlite")
    with pytest.raises(ConfigError, match="ledger = "):
        ClientConfig(client="a", ledger="~no-such-user/ledger.sqlite")
