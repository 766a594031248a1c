"""Each kit says its one command, and what is secret in it."""

from kits.made import Made


def test_each_kit_says_its_command_and_its_secrets(made: Made) -> None:
    server = (made.server / "README.txt").read_text()
    assert "fl-dp server --kit . --config" in server
    assert "Secret:      server.key, tls.key." in server
    site = (made.kit("north") / "README.txt").read_text()
    assert "fl-dp client --kit . --data" in site
    assert "Secret:      site.key." in site
    assert "north.join.json" in site
