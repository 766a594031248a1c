"""The server's settings of a run: their meaning, range, choices and default."""

from dataclasses import dataclass
from typing import Annotated

from fl_dp.choices import ACCOUNTANTS, AGGREGATIONS, LOCAL_ALGORITHMS, METRICS, SERVER_OPTIMIZERS, TRACKERS
from fl_dp.config.flat import AUTO, OWN_ACCOUNTANT, Auto
from fl_dp.config.setting import Clients, Examples, Mebibytes, Positive, Range, Rounds, Seconds, setting
from fl_dp.config.task import TaskSettings
from fl_dp.records import (
    ABADI,
    ARITHMETICS,
    CLIPPINGS,
    LEAST_EPSILON,
    LEAST_NOISE,
    MOST_DELTA,
    MOST_EPSILON,
    MOST_NOISE,
    OPTIMIZER_STATES,
    RESET,
    STEADY_ROWS,
)

WEIGHTS = DECLARED, UNIFORM, BY_NOISE = ("declared", "uniform", "noise")
PRIVACY = ("on", "off")
EVALUATE = ("server", "off")
KEEP_MODEL = LAST, BEST, AVERAGE = ("last", "best", "average")
SAMPLINGS = _, TURNS, FIXED, POISSON = (AUTO, "turns", "fixed", "poisson")

_FEDERATION, _SERVER, _TRAINING = "Federation", "Server", "Training at the clients"
_PRIVACY, _MACHINE = "Privacy", "Machine"


@dataclass(frozen=True, kw_only=True)
class RunSettings(TaskSettings):
    """The settings of `RunConfig`, each with its meaning beside it."""

    ELSEWHERE = (  # keys of other configs that runs get by mistake, and what to say
        (
            "fl_dp.config.client:ClientConfig",
            "a key of a client, which runs do not set; set it in that client's file, or with: fl-dp client "
            "--config FILE --set KEY=VALUE.",
        ),
    )

    clients: Clients = setting(2, _FEDERATION, "number of clients in the run", common=True)
    min_clients: Clients = setting(
        2,
        _FEDERATION,
        "clients that must be connected before a round starts; at most clients",
        common=True,
    )
    fit_clients: Clients = setting(
        2, _FEDERATION, "clients that train in a round, see sampling; at most clients", common=True
    )
    sampling: str = setting(
        AUTO,
        _FEDERATION,
        "turns: in random order, each client once before any twice; fixed: fit-clients random ones; poisson: "
        "each independently, so a round may have none; auto: turns in simulations, else fixed",
        choices=SAMPLINGS,
        page="strategies.md#who-trains",
    )
    rounds: Rounds = setting(3, _FEDERATION, "number of rounds", common=True)
    weights: str = setting(
        "declared",
        _SERVER,
        "weights of the clients in the mean: by declared size, uniform, or by noise, where less noise "
        "counts more",
        choices=WEIGHTS,
    )
    min_updates: Clients | Auto = setting(
        "auto",
        _SERVER,
        "updates that a round needs; with fewer the round is lost but still paid for. auto: the smaller of "
        "min-clients and fit-clients, fewer if budgets are spent, 1 with poisson",
    )
    aggregation: str = setting(
        "mean",
        _SERVER,
        "how updates are aggregated; all but mean weight them equally. krum:F tolerates F malicious clients "
        "(1); secure:D:C tolerates D members that drop out (0) and C that collude with the server (1)",
        choices=AGGREGATIONS,
        page="strategies.md#at-the-server",
    )
    server_optimizer: str = setting(
        "fedavg",
        _SERVER,
        "how the aggregated weights change the global ones; fedadam:RATE uses RATE instead of its default "
        "learning rate",
        choices=SERVER_OPTIMIZERS,
        page="strategies.md#at-the-server",
    )
    strategy: str = setting(
        "",
        _SERVER,
        "your own strategy parts, FILE.py:NAME",
        page="strategies.md#a-strategy-of-ones-own",
        path=True,
    )
    round_timeout: Seconds = setting(
        3600.0,
        _SERVER,
        "seconds to wait for the replies of a round, and for min-clients",
        page="strategies.md#when-a-round-is-closed",
        may_change=True,
    )
    evaluate: str = setting(
        "server",
        _SERVER,
        "off: the server has no test data; with personal it never measures",
        choices=EVALUATE,
    )
    site_metrics: bool = setting(
        False,
        _SERVER,
        "metrics on the sites' own test records, after the last round; evaluate-epsilon pays for them",
        page="site-metrics.md",
    )
    keep_model: str = setting(
        "last",
        _SERVER,
        "last: the last round's; best: the best on half of the server's test data; average: the moving "
        "average of all rounds' models, which is then evaluated",
        choices=KEEP_MODEL,
        page="strategies.md#at-the-server",
    )
    metrics: str = setting(
        "",
        _SERVER,
        "metrics on the test data, such as auroc,f1; empty: those of the task or loss",
        choices=METRICS,
        checked=False,
        page="training.md#metrics",
    )
    local_epochs: Annotated[float, Range(0, 1e6, open=True)] = setting(
        1.0, _TRAINING, "expected passes over a client's data in a round", common=True
    )
    expected_batch_size: Examples = setting(
        64, _TRAINING, "logical batch size: the expected size of the Poisson draw of a step", common=True
    )
    physical_batch_size: Examples | Auto = setting(
        64,
        _TRAINING,
        "maximum number of examples in memory at once; a divisor of the logical batch size; auto: by "
        "memory-mib",
        common=True,
    )
    memory_mib: Mebibytes = setting(
        1024,
        _TRAINING,
        "MiB that a step may use in addition to process, model and data; kernels and auto batch sizes stay "
        "within it",
        may_change=True,
    )
    learning_rate: Positive = setting(
        0.5, _TRAINING, "learning rate of the clients in the first round", common=True
    )
    learning_rate_schedule: str = setting(
        "constant",
        _TRAINING,
        "constant, linear, cosine, linear:LAST (down to LAST times the first), or "
        "step:N:FACTOR (times FACTOR after every N rounds)",
        page="training.md#optimizers",
    )
    optimizer: str = setting(
        "sgd",
        _TRAINING,
        "sgd, or another of torch.optim in lowercase, such as adam",
        page="training.md#optimizers",
    )
    optimizer_settings: str = setting(
        "",
        _TRAINING,
        "its options, as in a TOML inline table: momentum=0.9 or betas=[0.9,0.99]",
        page="training.md#optimizers",
    )
    optimizer_state: str = setting(
        RESET,
        _TRAINING,
        "keep: it continues from round to round and is stored on the client's disk",
        choices=OPTIMIZER_STATES,
    )
    local_algorithm: str = setting(
        "fedavg",
        _TRAINING,
        "local training algorithm: fedprox:PULL and mr-mtl:PULL pull clients towards the common model with "
        "strength PULL; with mr-mtl each site also has its own model",
        choices=LOCAL_ALGORITHMS,
        checked=False,
        page="strategies.md#at-the-clients",
    )
    privacy: str = setting(
        "on",
        _PRIVACY,
        "off: train without any protection, for comparison; clients must allow it",
        choices=PRIVACY,
        page="privacy.md#runs-without-privacy",
    )
    noise_multiplier: Annotated[float, Range(LEAST_NOISE, MOST_NOISE)] | Auto = setting(
        "auto",
        _PRIVACY,
        "standard deviation of the noise divided by the clipping bound; auto: chosen so that the "
        "rounds spend epsilon",
        page="accounting.md#calibration",
        common=True,
    )
    participations: Annotated[int, Range(0, 10**6)] | Auto = setting(
        "auto",
        _PRIVACY,
        "number of rounds per client that noise-multiplier = auto plans for; 0: all; auto: its turns or, if "
        "clients are drawn at random, a number that nine of ten clients do not exceed",
        page="strategies.md#who-trains",
    )
    max_grad_norm: Positive = setting(1.0, _PRIVACY, "clipping bound", page="clipping.md", common=True)
    clipping: str = setting(
        ABADI,
        _PRIVACY,
        "abadi: gradients longer than the bound are scaled to it; automatic: all gradients are scaled to "
        "about the bound",
        choices=CLIPPINGS,
        page="clipping.md",
    )
    epsilon: Annotated[float, Range(0, MOST_EPSILON, open=True)] = setting(
        3.0,
        _PRIVACY,
        "budget: the most epsilon that this run may cost any client; smaller protects more. A site's own "
        "budget may stop it earlier; the site's own delta and accountant apply",
        common=True,
    )
    delta: Annotated[float, Range(0, MOST_DELTA, open=True)] | Auto = setting(
        "auto",
        _PRIVACY,
        "delta of epsilon; auto: the largest power of ten below 1/n, at most 1e-5",
    )
    evaluate_epsilon: Annotated[float, Range(LEAST_EPSILON, MOST_EPSILON)] = setting(
        1.0,
        _PRIVACY,
        "evaluate-epsilon of the clients on this machine; a site uses its own",
        page="site-metrics.md",
    )
    accountant: str = setting(
        "pld",
        _PRIVACY,
        "pld is tight, rdp fast; only a proven upper bound may enforce a budget",
        choices=ACCOUNTANTS,
        own=OWN_ACCOUNTANT,
        page="accounting.md",
    )
    arithmetic: str = setting(
        STEADY_ROWS,
        _PRIVACY,
        "steady-rows: assumes that a record's gradient does not depend on its place in a pass or on its "
        "neighbours; proven: needs no such assumption, as every record has its own pass, which is slower",
        choices=ARITHMETICS,
        page="privacy.md#the-noise-and-what-a-machine-adds-to-the-theorem",
    )
    device: str = setting("auto", _MACHINE, "cpu, cuda, cuda:1; auto: a GPU if there is one")
    clients_per_cpu: Annotated[float, Range(0, 1e6, open=True)] | Auto = setting(
        "auto",
        _MACHINE,
        "simulated clients that train at the same time on a core; auto: one, if memory allows",
        page="scale.md#resources",
        may_change=True,
    )
    clients_per_gpu: Annotated[float, Range(0, 1e6, open=True)] | Auto = setting(
        "auto",
        _MACHINE,
        "simulated clients that train at the same time on a GPU; auto: as many as fit in its memory",
        page="scale.md#resources",
        may_change=True,
    )
    public_data: bool = setting(
        False,
        _MACHINE,
        "the records are public or synthetic: clients on this machine then use a ledger for this run alone, "
        "unless you name one",
        page="ledger.md#one-ledger-for-each-machine",
        may_change=True,
    )
    out: str = setting(
        "", _MACHINE, "folder of the run's files; the command line sets it with --out", path=True
    )
    track: str = setting(
        "",
        _SERVER,
        "trackers that also get the numbers of each round, separated by commas",
        choices=TRACKERS,
        checked=False,
        page="running.md#watch-a-run",
        may_change=True,
    )
