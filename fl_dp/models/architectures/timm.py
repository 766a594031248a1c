"""Image models of the timm library, untrained, without batch norm: only those in a tested list."""

import difflib
from typing import Any

from torch import nn

from fl_dp.errors import ModelError
from fl_dp.form import Form
from fl_dp.models.build import Model
from fl_dp.models.expect import expect_image
from fl_dp.models.group_norm import replace_batch_norms
from fl_dp.optional import require_package

# Each passed the engine's probe with images of 32x32 and of 64x64 pixels.
NAMES = (
    "convnext_atto",
    "deit_tiny_patch16_224",
    "densenet121",
    "edgenext_xx_small",
    "efficientnet_b0",
    "ghostnet_050",
    "nf_resnet26",
    "nfnet_l0",
    "poolformer_s12",
    "regnetx_002",
    "regnety_002",
    "resnet10t",
    "resnet18",
    "resnet26",
    "resnet34",
    "resnet50",
    "vit_small_patch16_224",
    "vit_tiny_patch16_224",
)
_SIZED = ("deit_", "vit_")  # families that are built for one size of images
_PATCHES = 4  # per side at least, if an image is large enough for them


def timm_model(form: Form, name: str) -> nn.Module:
    """timm's `name` for images (C, H, W) of at least 32x32 pixels, with any number of channels.

    Nothing is downloaded: the weights are random. Vision transformers are built for the data's size; images
    of less than 64 pixels are cut into patches of a quarter of their shorter side, not of 16x16. ModelError
    for a name that is not in the list.
    """
    if name not in NAMES:
        close = difflib.get_close_matches(name, NAMES) or NAMES
        raise ModelError(
            f"model = 'timm:{name}': not one of timm's models that fl_dp has tested; try "
            f"{' or '.join(close)}, or build it in your own code (FILE.py:NAME)."
        )
    channels, height, width = expect_image(form, least=32)
    require_package("timm", f"model = 'timm:{name}'")
    import timm  # late: it is optional, and takes seconds

    options: dict[str, Any] = {}
    if name.startswith(_SIZED):
        options["img_size"] = (height, width)
        if (patch := min(height, width) // _PATCHES) < 16:
            options["patch_size"] = (patch, patch)
    model: nn.Module = timm.create_model(
        name, pretrained=False, num_classes=form.outputs, in_chans=channels, **options
    )
    replace_batch_norms(model)
    return model


MODEL = Model(timm_model, argument="NAME")
