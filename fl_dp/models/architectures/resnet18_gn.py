"""ResNet-18 (He et al. 2016, arXiv 1512.03385) with group norm (Wu and He 2018, arXiv 1803.08494)."""

from torch import nn

from fl_dp.form import Form
from fl_dp.models.build import Model
from fl_dp.models.expect import expect_image
from fl_dp.optional import require_package

_SMALL = 64  # pixels: smaller images would shrink to a point in layers made for 224x224


def resnet18_gn(form: Form) -> nn.Module:
    """For images of at least 32x32 pixels, with any number of channels; 11.2 million parameters.

    Below 64 pixels the first convolution is 3x3, and there is no pooling before the blocks, as in the paper's
    networks for CIFAR-10. Normalisation layers have 32 groups.
    """
    channels, *sides = expect_image(form, least=32)
    require_package("torchvision", "model = 'resnet18-gn'")
    from torchvision.models import resnet18  # late: it is optional, and takes 1.3 s

    model: nn.Module = resnet18(
        weights=None, num_classes=form.outputs, norm_layer=lambda width: nn.GroupNorm(32, width)
    )
    if min(sides) < _SMALL:
        model.conv1 = nn.Conv2d(channels, 64, kernel_size=3, padding=1, bias=False)
        model.maxpool = nn.Identity()
    else:
        model.conv1 = nn.Conv2d(channels, 64, kernel_size=7, stride=2, padding=3, bias=False)
    nn.init.kaiming_normal_(model.conv1.weight, mode="fan_out", nonlinearity="relu")
    return model


MODEL = Model(resnet18_gn)
