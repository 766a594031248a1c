"""What every contender trains. The standard library only: pfl-research has an environment of its own."""

from dataclasses import dataclass

LEARNING_RATE, NOISE_MULTIPLIER, MAX_GRAD_NORM = 0.5, 1.0, 1.0


@dataclass(frozen=True, slots=True)
class Federation:
    """`clients` parts of equal size of a training set, `per_round` of them trained in a round for one epoch.

    data, model: names as in a run config. input_shape: of one record.
    """

    data: str
    model: str
    input_shape: tuple[int, ...]
    clients: int
    per_round: int
    batch: int = 20
    classes: int = 10


FEDERATIONS = {
    "fashion-mnist": Federation("fashion_mnist", "tanh-cnn", (1, 28, 28), clients=1000, per_round=100),
    # for GPUs: batches that one client's process cannot fill it with
    "200-clients": Federation("fashion_mnist", "tanh-cnn", (1, 28, 28), clients=200, per_round=200, batch=60),
    "digits": Federation("digits", "linear", (1, 8, 8), clients=20, per_round=4),  # small: for trying it out
}
