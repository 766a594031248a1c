"""What no site has signed of a run, in the words of `fl-dp verify`.

Beside the words are the fields that they cover: a test checks that each field of a run's files is here, is
signed by a site, or follows from fields that are.
"""

# Fields of a `Summary`, a `RoundReport` and their parts; of a `ModelDescription`, as model.FIELD; or a file.
UNSIGNED = {
    "which other clients took part": "clients",
    "what the server's operator calls the data": "model.data",
    "the data's columns, classes and form": "model.schema model.classes model.form",
    "the model's name, the loss, the task and the identity of its code": (
        "model.model model.loss model.task model.identity task"
    ),
    "all settings of the server, and how the run was launched": "config.toml resolved.toml launch.toml",
    "noise, rates and clipping bound of this run by themselves, apart from all that was spent": (
        "noise_multiplier max_grad_norm clients.sample_rate clients.noise_multiplier"
    ),
    "what all planned rounds would spend": (
        "clients.planned_epsilon planned_epsilon clients.rounds_left clients.rounds_beyond "
        "federation.rounds_ahead federation.running_out clients.budget_alone"
    ),
    "the rounds: how many, which were lost, who trained in which, and why others did not": (
        "round rounds lost lost_rounds clients.rounds clients.status clients.reason clients.reported "
        "clients.scaled"
    ),
    "whether masks hid the parts of secure sums, and of how many clients each sum was": (
        "masked secure_sum clients.shares"
    ),
    "how the run ended, and why": "status reason",
    "losses and metrics, and of which round the model is": (
        "loss accuracy metrics constant outcomes site_metrics test_accounts suppressed_below model "
        "model_round"
    ),
    "dates and times of the run": "started ended seconds model.date",
    "versions, and the digests of the server's code and config": "versions digests model.version",
    "purpose, operator, legal basis, who gets the model, until when it is kept, who approved and when": (
        "approval.toml"
    ),
}

LISTED = "what no site has signed is listed last"  # by `fl-dp verify`, in the words of UNSIGNED
