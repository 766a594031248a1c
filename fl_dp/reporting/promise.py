"""A model's guarantee in words, for the model card and the page of a run."""

PROMISE = (
    "Differential privacy, add or remove one record at one client: any conclusion from the model, and from "
    "everything that was sent in training, is at most e^epsilon times as likely, plus delta, with the "
    "record as without it, and the other way round. Several records of one person at a client are "
    "protected less: k of them with k times epsilon and a larger delta. Conclusions about people in "
    "general are not covered."
)
PROMISE_OF_PERSONS = (
    "Differential privacy, add or remove one person with all records at one client: any conclusion from "
    "the model, and from everything that was sent in training, is at most e^epsilon times as likely, plus "
    "delta, with the person as without, and the other way round. Conclusions about people in general are "
    "not covered."
)
WHERE = " Assumptions and theorems: docs/privacy.md and docs/persons.md of fl_dp's documentation."
NO_PROMISE = (
    "None: NOT PRIVATE. The model was trained without protection; individual records may be inferred from it."
)
