"""Which settings the rule chooses, by field of the run config."""

CHOSEN = (
    "rounds", "local_epochs", "expected_batch_size", "physical_batch_size", "learning_rate", "momentum",
    "optimizer_state", "max_grad_norm", "noise_multiplier", "participations",
)  # fmt: skip
