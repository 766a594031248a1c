"""What to do if a model does not fit the data, worded for the data's form."""

from fl_dp.form import Form

_ANY = "linear and mlp take numbers of any shape"


def remedy(form: Form) -> str:
    """A sentence that names models, or settings, for inputs of this form."""
    if form.vocabulary or form.targets == "tokens":
        return "For tokens there are transformer and hf:PATH; `tokens` sets their number."
    match len(form.input_shape):
        case 1:
            return "For rows of numbers, as of a table, there are linear and mlp."
        case 2:
            return f"For windows (time steps, channels) there is cnn1d; {_ANY}."
        case 3:
            return (
                "Choose a model for images of this size, or bring them to another (image-size, for folder: "
                f"and hf:); {_ANY}."
            )
    return f"{_ANY[:1].upper()}{_ANY[1:]}; others by a model of your own (FILE.py:NAME)."
