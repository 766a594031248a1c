"""The page of commands has every command, with every option."""

from scripts.site.commands import all_commands, commands_page


def test_every_command_and_every_option_is_on_the_page():
    page = commands_page()
    assert "/fl_dp/configs" not in page  # no path of this machine
    commands = dict(all_commands())
    assert ("fl-dp", "ledger", "show") in commands
    for words, command in commands.items():
        section = page.split(f"## `{' '.join(words)}`\n")[1].split("\n## ")[0]
        shown = [one for one in command.params if not getattr(one, "hidden", False)]
        options = [option for one in shown for option in one.opts if option.startswith("--")]
        assert all(option in section for option in options), words
