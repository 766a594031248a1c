"""The README's lines are what the folders of its runs say."""

import json

import pytest

from benchmarks.readme import README, row, with_line

COMMAND = "./run.sh 2 2 2"


@pytest.mark.parametrize(("noise", "words"), [('"auto"', "1.545 (auto)"), ("1.545", "1.545")])
def test_a_line_says_what_the_run_has_written(tmp_path, noise, words):
    (tmp_path / "config.toml").write_text(f"noise-multiplier = {noise}\n")
    reports = [
        {"noise_multiplier": 1.545, "epsilon": e, "accuracy": a} for e, a in ((1.781, 0.8514), (3.0, 0.9))
    ]
    (tmp_path / "rounds.jsonl").write_text("\n".join(map(json.dumps, reports)))
    assert row(COMMAND, tmp_path, 3, 14.4) == (
        f"| `{COMMAND}` | {words} | 1.79, 3.00; then the budgets are spent (exit code 3) | "
        "0.851, 0.900 | 14 |"
    )


def test_one_line_of_the_readme_is_written_anew_and_nothing_else():
    before = README.read_text()
    commands = [line.split("`")[1] for line in before.splitlines() if line.startswith("| `./run.sh")]
    assert len(commands) == 3
    after = with_line(before, commands[0], "| new |")
    assert "\n| new |\n" in after
    changed = set(before.splitlines()) - set(after.splitlines())
    assert [line.split("`")[1] for line in changed] == [commands[0]]
