"""Who is private and who is not, said the same everywhere."""

from verify.made_run import RATE, MadeRun


def test_steps_without_noise_have_no_epsilon(made_run: MadeRun) -> None:
    made_run.change_client(charges=[{"sample_rate": RATE, "noise_multiplier": 0.0, "steps": 60}])
    words = made_run.words("protection")
    assert "epsilon 2." in words
    assert "it trained in a private run, and its charges hold steps without noise" in words
    assert "client north" in words


def test_steps_had_noise_only_where_there_were_steps(made_run: MadeRun) -> None:
    def said() -> list[str]:
        return [one.what for one in made_run.check()["protection"].findings]

    assert said() == ["the run is private: every step had noise, and no file says otherwise"]
    made_run.files.rounds.unlink()
    assert said() == ["the run is private: every step had noise, and no file says otherwise"]
    nothing = {"charges": [], "epsilon": 0.0}
    made_run.change_summary(
        lambda summary: [one.update(this_run=nothing) for one in summary["clients"].values()]
    )
    assert said() == ["the run is private: there was no step, and no file says otherwise"]


def test_a_model_without_privacy_has_no_place_in_a_private_run(made_run: MadeRun) -> None:
    made_run.files.model(private=False).write_bytes(b"")
    assert "model-NOT-PRIVATE.pt in a run that is private" in made_run.words("protection")


def test_one_round_that_is_not_private_is_found(made_run: MadeRun) -> None:
    made_run.change_rounds(lambda line: line.update(private=line["round"] != 2))
    words = made_run.words("protection")
    assert "some of it says that the run is private" in words
    assert "of a run without privacy (rounds.jsonl, line 2)" in words
    assert "(rounds.jsonl, line 2, client north)" in words  # it trained: its own epsilon does not hold
