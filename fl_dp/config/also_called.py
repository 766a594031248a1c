"""Names of settings, options and commands in Flower, Opacus, PyTorch, Hydra and pfl-research."""

from collections.abc import Collection

SEVERAL_RUNS = "fl_dp.study in Python, docs/researcher.md"
# Aliases of each setting. After `=` stands what becomes of the value that was given, {}.
_SETTINGS = {
    "learning-rate": "lr eta client-lr local-lr local-learning-rate",
    "local-epochs": "epochs num-epochs n-epochs nb-epochs local-num-epochs max-epochs num-train-epochs",
    "expected-batch-size": "batch-size bs train-batch-size logical-batch-size local-batch-size",
    "physical-batch-size": "max-physical-batch-size microbatch-size micro-batch-size mini-batch-size",
    "epsilon": "eps target-epsilon privacy-budget",
    "delta": "target-delta",
    "noise-multiplier": "sigma noise-scale nm",
    "max-grad-norm": "clip clip-norm clipping-norm clipping-bound clipping-threshold l2-norm-clip mgn",
    "clients": "num-clients n-clients nb-clients num-supernodes num-nodes num-sites num-users n-sites",
    "fit-clients": "cohort-size clients-per-round min-fit-clients",
    "min-clients": "min-available-clients min-available-nodes min-num-clients",
    "rounds": "num-rounds n-rounds nb-rounds num-server-rounds comm-rounds central-num-iterations iterations",
    "data": "dataset dataset-name data-path data-file train-data",
    "data-root": "data-dir dataset-dir",
    "model": "model-name arch architecture net",
    "partition": "partitioner partitioning",
    "partition=dirichlet:{}": "alpha dirichlet-alpha dirichlet",
    "local-algorithm": "algorithm algo fl-algorithm",
    "local-algorithm=fedprox:{}": "mu proximal-mu prox-mu pull",
    "optimizer-settings=momentum={}": "momentum",
    "optimizer-settings=weight_decay={}": "weight-decay wd",
    "server-optimizer": "central-optimizer server-opt",
    "server-optimizer=fedadam:{}": "server-lr server-learning-rate central-lr eta-server",
    "learning-rate-schedule": "lr-schedule lr-scheduler scheduler schedule",
    "seed": "random-seed manual-seed rng-seed random-state",
    "start": "checkpoint pretrained init-weights weights-path",
    "loss": "criterion loss-fn objective",
    "metrics": "metric eval-metrics",
    "track": "logger report-to wandb tensorboard tracker",
    "device": "accelerator",
    "device=cuda": "gpus num-gpus gpu cuda use-cuda n-gpus ngpu",
    "device=cpu": "no-cuda use-cpu no-gpu",
    "privacy=off": "no-dp non-private no-privacy disable-dp nodp",
    "privacy=on": "dp private use-dp enable-dp differential-privacy",
    "trainable": "trainable-layers",
    "personal": "personal-layers local-layers",
    "test": "test-size val-split validation-split test-fraction test-split",
    "aggregation": "aggregator agg",
    "aggregation=secure": "secagg secure-aggregation secaggplus",
    "clients-per-gpu": "num-gpus-per-client",
    "unit=person:{}": "user-column user-id person person-column group-by",
    "tokens": "max-length seq-len seq-length max-len block-size sequence-length",
    "image-size": "img-size resolution",
    "keep-model=best": "save-best early-stopping",
    "sampling=poisson": "poisson-sampling",
}
_OPTIONS = {  # of `fl-dp run`, or what to call in its place
    "--out": "output output-dir out-dir run-dir log-dir logdir save-dir save-path results-dir o",
    "--config": "config-file config-path config-name cfg conf yaml c",
    "--simulate": "simulation ray",
    "--resume": "continue restart resume-run resume-from",
    "--ray-address": "address cluster",
    "--ledger": "ledger-dir ledger-path",
    "--set": "override overrides run-config",
    "fl-dp check": "dry-run check",
    SEVERAL_RUNS: "multirun sweep grid-search m",
}
_OPTIONS_ELSEWHERE = {  # of other commands
    "--address": "port host bind listen server-address",
    "--server": "port host server-address superlink",
    "--to": "format",
    "--out": "output-file csv",
}
# What to do instead of setting words that no setting of ours means alone.
_INSTEAD = {
    "write fit-clients, how many clients train in a round": "fraction-fit fraction-train sample-fraction",
    "write expected-batch-size, the rate times a client's records": "sample-rate sampling-rate",
    "leave it out: the engine chooses how it clips": "grad-sample-mode clipping-mode ghost",
    "leave it out: noise is always cryptographically random": "secure-mode secure-rng",
}
# Values of a setting in other projects, of which none is a name of ours.
_VALUES = {
    "accountant=pld": "prv",
    "aggregation=mean": "fedavg average avg weighted-average",
    "data=folder:PATH": "imagenet imagefolder",
    "device=cuda": "gpu",
    "model=torchvision:{}": "resnet34 resnet50 vgg11 vgg16 mobilenet-v2 efficientnet-b0 densenet121",
    "model=tanh-cnn": "cnn simple-cnn net",
    "optimizer=sgd": "sgd-momentum momentum",
    "partition=dirichlet:0.5": "noniid non-iid heterogeneous label-skew lda",
    "privacy=off": "false none no 0",
    "privacy=on": "true yes 1",
}
COMMANDS = {
    "simulate": "fl-dp run --simulate",
    "train": "fl-dp run",
    "start": "fl-dp run",
    "resume": "fl-dp run --resume DIR",
    "sweep": SEVERAL_RUNS,
    "study": SEVERAL_RUNS,
    "init": "fl-dp new",
    "create": "fl-dp new",
    "config": "fl-dp new FILE.toml",
    "validate": "fl-dp check",
    "dry-run": "fl-dp check",
    "budget": "fl-dp check",
    "calibrate": "fl-dp check",
    "status": "fl-dp client status",
    "evaluate": "fl-dp client --evaluate",
    "serve": "fl-dp server",
    "superlink": "fl-dp server",
    "join": "fl-dp join-request",
    "supernode": "fl-dp client",
    "save": "fl-dp export",
    "show": "fl-dp report",
    "help": "fl-dp --help",
    "version": "fl-dp --version",
}
_BY_ALIAS = {alias: setting for setting, aliases in _SETTINGS.items() for alias in aliases.split()}
_VALUE_BY_ALIAS = {
    (setting.partition("=")[0], alias): setting.partition("=")[2]
    for setting, aliases in _VALUES.items()
    for alias in aliases.split()
}
_INSTEAD_BY_ALIAS = {alias: words for words, aliases in _INSTEAD.items() for alias in aliases.split()}
_OPTION_BY_ALIAS = {alias: option for option, aliases in _OPTIONS.items() for alias in aliases.split()}


def setting_called(word: str) -> tuple[str, str]:
    """The key that other projects call `word`, empty if none, and its value with {} for the given one."""
    key, _, value = _BY_ALIAS.get(_plain(word), "").partition("=")
    return key, value or "{}"


def value_called(key: str, value: str) -> str:
    """The value of the setting `key` that other projects call `value`; empty if none."""
    return _VALUE_BY_ALIAS.get((key, _plain(value)), "").format(_plain(value).replace("-", "_"))


def instead_of(word: str) -> str:
    """What to do instead of setting `word`, if it is the word of another project; else empty."""
    return _INSTEAD_BY_ALIAS.get(_plain(word), "")


def option_called(word: str) -> str:
    """What to type for `word`: an option of `fl-dp run`, another command or a function; empty if none."""
    return _OPTION_BY_ALIAS.get(_plain(word), "")


def option_among(word: str, options: Collection[str]) -> str:
    """The one of a command's options that other projects call `word`; empty if none."""
    if (meant := option_called(word)) in options:
        return meant
    tables = _OPTIONS_ELSEWHERE.items()
    return next((one for one, aliases in tables if one in options and _plain(word) in aliases.split()), "")


def _plain(word: str) -> str:
    return word.lower().replace("_", "-")
