"""Every family of torchvision's classification models, and timm's vision transformers."""

import pytest
import torch
from structured import assert_equals_definition, call
from torch import nn
from torchvision import models
from torchvision.models import maxvit, swin_transformer
from torchvision.models.convnext import CNBlockConfig
from torchvision.models.resnet import Bottleneck

from fl_dp.engine.probe import probe
from fl_dp.models.group_norm import replace_batch_norms

pytestmark = pytest.mark.usefixtures("exact")


def _deterministic(model: nn.Module) -> nn.Module:
    """Without batch norm, and without dropout, which is another one for an example alone."""
    replace_batch_norms(model)
    for module in model.modules():
        if isinstance(module, nn.Dropout) or type(module).__name__ == "StochasticDepth":
            module.p = 0.0
    return model.double()  # some tables are float32 by themselves


def _swin_v2() -> nn.Module:
    return swin_transformer.SwinTransformer(
        [4, 4],
        8,
        [1, 1],
        [2, 2],
        [2, 2],
        num_classes=3,
        block=swin_transformer.SwinTransformerBlockV2,
        downsample_layer=swin_transformer.PatchMergingV2,
    )


TORCHVISION = {
    "convnext": (
        lambda: models.ConvNeXt([CNBlockConfig(8, 8, 1), CNBlockConfig(8, None, 1)], num_classes=3),
        16,
    ),
    "densenet": (lambda: models.DenseNet(4, (2, 2), 8, num_classes=3), 32),
    "efficientnet": (lambda: models.get_model("efficientnet_b0", num_classes=3), 32),
    "googlenet": (lambda: models.GoogLeNet(3, aux_logits=False, init_weights=False), 64),
    "maxvit": (lambda: maxvit.MaxVit((32, 32), 8, 4, [8, 16], [1, 1], 4, 0.0, num_classes=3), 32),
    "mnasnet": (lambda: models.MNASNet(0.35, num_classes=3), 32),
    "mobilenet v2": (lambda: models.MobileNetV2(3, width_mult=0.35), 32),
    "mobilenet v3": (lambda: models.get_model("mobilenet_v3_small", num_classes=3, width_mult=0.35), 64),
    "regnet": (lambda: models.get_model("regnet_y_400mf", num_classes=3), 32),
    "resnet": (lambda: models.ResNet(Bottleneck, [1, 1, 1, 1], 3, width_per_group=8), 32),
    "resnext": (lambda: models.ResNet(Bottleneck, [1, 1, 1, 1], 3, groups=4, width_per_group=4), 32),
    "shufflenet": (lambda: models.ShuffleNetV2([1, 1, 1], [8, 16, 32, 64, 64], num_classes=3), 64),
    "squeezenet": (lambda: models.SqueezeNet("1_1", 3), 32),
    "swin": (lambda: models.SwinTransformer([4, 4], 8, [1, 1], [2, 2], [2, 2], num_classes=3), 16),
    "swin v2": (_swin_v2, 16),
    "vit": (lambda: models.VisionTransformer(8, 4, 1, 2, 8, 16, num_classes=3), 8),
}


SLOW = {"efficientnet", "googlenet", "mnasnet", "regnet"}


@pytest.mark.parametrize(
    "family", [pytest.param(f, marks=[pytest.mark.slow] if f in SLOW else []) for f in TORCHVISION]
)
def test_torchvision_equals_one_backward_per_example(family):
    make, size = TORCHVISION[family]
    assert_equals_definition(
        _deterministic(make()), lambda n: call(torch.randn(n, 3, size, size)), sizes=(3,)
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["alexnet", "inception_v3", "vgg11_bn"])
def test_large_models_pass_the_start_up_check(name):
    """Whose check is the definition, in float32."""
    options = {"aux_logits": False, "init_weights": False} if name == "inception_v3" else {}
    model = _deterministic(models.get_model(name, weights=None, num_classes=3, **options))
    images = torch.randn(2, 3, 80, 80, dtype=torch.float32)
    assert not probe(model.float(), images).fallback


def _timm(kind: str, **options) -> nn.Module:
    pytest.importorskip("timm")
    from timm.models.beit import Beit
    from timm.models.vision_transformer import VisionTransformer
    from timm.models.vision_transformer_relpos import VisionTransformerRelPos

    made = {"vit": VisionTransformer, "relpos": VisionTransformerRelPos, "beit": Beit}[kind]
    return made(img_size=16, patch_size=8, num_classes=3, embed_dim=16, depth=2, num_heads=2, **options)


TIMM = {
    "class token": {"kind": "vit"},
    "LayerScale": {"kind": "vit", "init_values": 1e-2},
    "normalised queries and keys": {"kind": "vit", "qk_norm": True},
    "register tokens": {"kind": "vit", "reg_tokens": 2},
    "pooled by attention": {"kind": "vit", "class_token": False, "global_pool": "map"},
    "relative position from a network": {"kind": "relpos", "class_token": True},
    "relative position from a table": {"kind": "relpos", "rel_pos_type": "bias"},
    "a table of its own in each block": {"kind": "beit", "init_values": 0.1, "use_rel_pos_bias": True},
    "one table for all blocks": {"kind": "beit", "init_values": 0.1, "use_shared_rel_pos_bias": True},
}


@pytest.mark.parametrize("case", TIMM)
def test_timm_equals_one_backward_per_example(case):
    model = _deterministic(_timm(**TIMM[case]))
    assert_equals_definition(model, lambda n: call(torch.randn(n, 3, 16, 16)), sizes=(1, 7))
