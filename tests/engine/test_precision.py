"""Products are exact to float32 inside, and the user's settings are as they were outside."""

import pytest
import torch

from fl_dp.engine.precision import check_overrides, full_precision
from fl_dp.errors import ConfigError

CPU = torch.device("cpu")
BACKENDS = (torch.backends.cuda.matmul, torch.backends.mkldnn.matmul)


@pytest.fixture(autouse=True)
def _settings():
    before = [backend.fp32_precision for backend in BACKENDS]
    yield
    torch.set_float32_matmul_precision("highest")
    for backend, precision in zip(BACKENDS, before, strict=True):
        backend.fp32_precision = precision


def _relative_error():
    a = torch.randn(4, 64, 64)
    exact = a.double() @ a.double()
    return float((torch.bmm(a, a) - exact).abs().max() / exact.abs().max())


@pytest.mark.parametrize("precision", ["highest", "high", "medium"])
def test_products_are_in_float32_whatever_is_allowed_and_settings_come_back_after_an_error_too(precision):
    torch.set_float32_matmul_precision(precision)
    outside = [backend.fp32_precision for backend in BACKENDS]

    def inside():
        with full_precision(CPU):
            assert all(backend.fp32_precision == "ieee" for backend in BACKENDS)
            assert _relative_error() < 1e-6
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        inside()
    assert [backend.fp32_precision for backend in BACKENDS] == outside
    assert torch.get_float32_matmul_precision() == precision


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_is_off_within(dtype):
    with torch.autocast("cpu", dtype=dtype):
        assert _relative_error() > 1e-6  # else the test shows nothing
        with full_precision(CPU):
            assert _relative_error() < 1e-6
        assert torch.is_autocast_enabled("cpu")


def test_by_default_nothing_is_written():
    """Not even the value that is there: other threads may be reading it."""
    before = [backend.fp32_precision for backend in BACKENDS]
    assert set(before) <= {"none", "ieee"}
    with full_precision(CPU):
        assert [backend.fp32_precision for backend in BACKENDS] == before


@pytest.mark.parametrize(
    "name",
    ["NVIDIA_TF32_OVERRIDE", "CUBLAS_EMULATE_SINGLE_PRECISION", "CUBLAS_EMULATE_DOUBLE_PRECISION"],
)
def test_what_lowers_a_gpus_precision_unseen_by_pytorch_is_refused_there(monkeypatch, name):
    gpu = torch.device("cuda")
    for allowed in ("", "0"):
        monkeypatch.setenv(name, allowed)
        check_overrides(gpu)
    monkeypatch.setenv(name, "1")
    check_overrides(CPU)
    with pytest.raises(ConfigError, match=rf"{name} in the environment: .* Unset it"):
        check_overrides(gpu)
