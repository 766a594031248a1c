"""What a model's guarantee is, in one wording: for the card beside a model and for the report of a run."""

PROMISE = (
    "Differential privacy, add or remove one record at one client: whatever is concluded from the model, and "
    "from all that was sent in training, has a probability that differs by a factor of e^epsilon at most, "
    "delta aside, whether the record was there or not. Several records of one person at a client are not "
    "covered together, nor is what the data as a whole say. docs/privacy.md has assumptions and theorems."
)
PROMISE_OF_PERSONS = (
    "Differential privacy, add or remove one person with all records at one client: whatever is concluded "
    "from the model, and from all that was sent in training, has a probability that differs by a factor of "
    "e^epsilon at most, delta aside, whether the person was there or not. What the data as a whole say is "
    "not covered. docs/persons.md and docs/privacy.md have assumptions and theorems."
)
NO_PROMISE = (
    "None: NOT PRIVATE. The model was trained without protection; single records may be found out from it."
)
