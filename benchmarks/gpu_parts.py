"""What `benchmarks.gpu` measures, by part: rows of its table (what, and what was seen), and all for JSON.

Each part imports what it needs, and no more: a machine may lack what the others need.
"""

import argparse
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

Found = tuple[list[tuple[str, str]], object]

TESTS = (
    "tests/engine/test_cuda.py",
    "tests/engine/noise/test_device.py",
    "tests/engine/test_kernels.py",
    "tests/engine/gradients/test_gram_triton.py",
    "tests/engine/kernel_choice/test_memory.py",
    "tests/engine/test_steady_rows.py",
    "tests/engine/test_clipping.py",
    "tests/engine/test_recording.py",
    "tests/training/test_no_host_in_a_step.py",
)
ACTOR_TESTS = ("tests/simulation/test_cuda.py",)
WITH_MEMORY = ("fl-dp-mixed", "fl-dp-float-noise", "opacus-hooks", "opacus-ghost", "fastdp", "private-cnn")
ENGINES = (*WITH_MEMORY, "jax-privacy")  # whose memory PyTorch does not see
MODELS = ("tanh-cnn", "resnet18-w64", "vgg19", "vit", "decoder")
SHARED = (1, 2, 4, 8, 16, 32, 64)
WITHIN = {"float64": 1e-9, "float32": 2e-2}  # TensorFloat-32, and lengths that are rounded up
IMAGES = {"train": 60_000, "test": 1_000}  # made up: 300 for each of 200 clients
_MIB, _NO_TIME = 2**20, "not measured: no time was left"


def run_tests(files: Sequence[str], options: argparse.Namespace) -> Found:
    """The tests take the GPU where there is one; without one they skip it, and that is counted."""
    files = files[:1] if options.quick else files
    with TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "not slow", *files]
        # warnings are errors in the tests, and depend on versions
        done = subprocess.run([*command, "-W", "default", f"--junitxml={report}"], check=False)
        if not report.exists():
            raise RuntimeError(f"pytest ended with {done.returncode}, without a report")
        cases = list(ElementTree.parse(report).iter("testcase"))
    outcomes: dict[str, list[str]] = {"passed": [], "skipped": [], "failure": [], "error": []}
    for case in cases:
        outcome = next((child.tag for child in case if child.tag in outcomes), "passed")
        outcomes[outcome].append(f"{case.get('classname')}.{case.get('name')}")
    counts = ", ".join(f"{len(names)} {outcome}" for outcome, names in outcomes.items() if names)
    wrong = outcomes["failure"] + outcomes["error"]
    return [
        (f"{len(files)} files of tests", f"{counts}{': WRONG: ' * bool(wrong)}{'; '.join(wrong[:5])}")
    ], outcomes


def equal(options: argparse.Namespace) -> Found:
    """A private step's sum beside one backward pass per example in float64, its noise beside the host's."""
    import torch

    from benchmarks.models import MODELS as SPECS
    from fl_dp.engine.noise.gaussian import add_gaussian_noise
    from fl_dp.engine.noise.randomness import Randomness

    source = Randomness(bytes(range(32)))  # so that host and device draw the same
    rows, data = [], {}
    for name in ("tanh-cnn",) if options.quick else ("tanh-cnn", "vgg11", "vit", "decoder"):
        for dtype, most in WITHIN.items():
            torch.manual_seed(0)
            model, (inputs, targets) = SPECS[name].build().double(), SPECS[name].batch_of(6, "cpu")
            expected = _by_definition(model, _as(inputs, torch.float64), targets)
            kind = getattr(torch, dtype)
            model, inputs = model.to(options.device, kind), _as(inputs, kind).to(options.device)
            clipped = _clipped(model, inputs, targets.to(options.device))
            gap = [clipped.grads[key].double().cpu() - grad for key, grad in expected.items()]
            error = _length(gap) / _length(expected.values())
            on_host = replace(clipped, grads={k: g.cpu() for k, g in clipped.grads.items()})
            noisy, same = (
                add_gaussian_noise(one, noise_multiplier=1.0, generator=source) for one in (clipped, on_host)
            )
            equal = all(torch.equal(noisy[key].cpu(), same[key]) for key in same)
            data[f"{name}, {dtype}"] = {"error": error, "within": most, "noise_equal": equal}
            verdict = "ok" if error <= most else f"WRONG: more than {most:g}"
            noise = "equals the host's bit for bit" if equal else "WRONG: differs from the host's"
            noise = noise if _makes_noise(options) else "not compared"
            rows.append((f"{name}, {dtype}", f"{error:.1e} from the definition ({verdict}); noise {noise}"))
    return [*rows, _made(options)], data


def _makes_noise(options: argparse.Namespace) -> bool:
    """Whether the device itself does; else the host."""
    import torch

    from fl_dp.engine.triton_support import has_triton

    return has_triton(torch.device(options.device))


def _made(options: argparse.Namespace) -> tuple[str, str]:
    return "noise was made", "by kernels on the device" if _makes_noise(options) else "by the host alone"


def _by_definition(model: Any, inputs: Any, targets: Any) -> dict[str, Any]:
    """name -> sum, by one backward pass for each example."""
    import torch

    from benchmarks.models import per_example_losses
    from benchmarks.steps import MAX_GRAD_NORM

    parameters = dict(model.named_parameters())
    total = {name: torch.zeros_like(p) for name, p in parameters.items()}
    for n in range(len(inputs)):
        loss = per_example_losses(model(inputs[n : n + 1]), targets[n : n + 1]).sum()
        grads = torch.autograd.grad(loss, list(parameters.values()))
        factor = min(1.0, MAX_GRAD_NORM / _length(grads))
        for sum_, grad in zip(total.values(), grads, strict=True):
            sum_ += factor * grad
    return total


def _clipped(model: Any, inputs: Any, targets: Any) -> Any:
    from benchmarks.models import per_example_losses
    from benchmarks.steps import MAX_GRAD_NORM
    from fl_dp.engine.clipping import clipped_grad_sum
    from fl_dp.engine.kernel_choice.chooser import KernelChooser
    from fl_dp.engine.probe import probe

    axes, parameters = probe(model, inputs), dict(model.named_parameters())
    losses = per_example_losses(model(inputs), targets)
    return clipped_grad_sum(
        losses, parameters, max_grad_norm=MAX_GRAD_NORM, axes=axes, chooser=KernelChooser()
    )


def _as(inputs: Any, dtype: Any) -> Any:
    return inputs.to(dtype) if inputs.is_floating_point() else inputs


def _length(tensors: Any) -> float:
    return math.sqrt(sum(float(one.detach().double().square().sum()) for one in tensors))


def steady(options: argparse.Namespace) -> Found:
    """Whether an example's bits depend on its place in a pass, at some numbers of rows."""
    import torch

    from benchmarks.small_step import made_up, private_trainer
    from fl_dp.errors import FlDpError

    small, large = ("linear", "tanh-cnn"), ("wrn-gn:16x4", "resnet18-gn")
    found: dict[str, dict[int, str]] = {}
    for name in small if options.quick else (*small, *large):
        data = made_up((1, 28, 28) if name in small else (3, 32, 32))
        for rows in (64, 128) if options.quick else (64, 128, 512, 1024):
            trainer = private_trainer(name, data, torch.device(options.device))
            try:
                trainer.rehearse(rows)
                trainer.use_kernels(trainer.kernels)
                trainer.check_rows(rows)
                word = "steady"
            except (FlDpError, torch.OutOfMemoryError) as error:
                word = f"{type(error).__name__}: {error}"
            found.setdefault(name, {})[rows] = word
    return [(name, _listed(by_rows)) for name, by_rows in found.items()], found


def _listed(words: Mapping[int, str]) -> str:
    """Keys of the same word together."""
    keys: dict[str, list[str]] = {}
    for key, word in words.items():
        keys.setdefault(word, []).append(str(key))
    return "; ".join(f"{', '.join(group)}: {word}" for word, group in keys.items())


def noise(options: argparse.Namespace) -> Found:
    """ms a million numbers, on the device and on one thread of the host."""
    import torch

    from fl_dp.engine.noise.gaussian import NoiseSource
    from fl_dp.engine.noise.randomness import Randomness

    torch.set_num_threads(1)
    rows, data = [], {}
    for numbers in (100_000, 1_000_000) if options.quick else (1_000_000, 10_000_000, 86_000_000):
        for device in dict.fromkeys((options.device, "cpu")):
            generator = torch.Generator(device)
            sources: dict[str, NoiseSource] = {
                "secure": "secure",
                "of a payment": Randomness.system(),
                "torch.Generator": generator,
            }
            seen = {name: _ms_per_million(one, device, numbers) for name, one in sources.items()}
            data[f"{numbers} on {device}"] = seen
            words = ", ".join(f"{name} {ms:.3g}" for name, ms in seen.items())
            rows.append((f"{numbers / 1e6:g} million on {device}", f"{words} ms a million"))
    return [*rows, _made(options)], data


def _ms_per_million(source: Any, device: str, numbers: int) -> float:
    """Median of five additions of noise to so many numbers in float32, after a first one."""
    import torch

    from fl_dp.engine.clipping import ClippedSum
    from fl_dp.engine.noise.gaussian import add_gaussian_noise

    clipped = ClippedSum({"numbers": torch.zeros(numbers, device=device)}, 1.0, torch.zeros(1))
    seconds = []
    for _ in range(6):
        start = time.perf_counter()
        noisy = add_gaussian_noise(clipped, noise_multiplier=1.0, generator=source)
        noisy["numbers"][0].item()  # waits for a GPU
        seconds.append(time.perf_counter() - start)
    return 1e9 * statistics.median(seconds[1:]) / numbers


def replayed(options: argparse.Namespace) -> Found:
    """Small private steps over plain ones, their passes queued by Python, or replayed as CUDA graphs."""
    from benchmarks import small_step

    turns = "5" if options.quick else "400"
    arguments = ["--device", options.device, "--turns", turns, "--rows", "64", "--clock", "wall"]
    data = small_step.run(small_step.parser().parse_args(arguments)).data
    return [
        (name, ", ".join(f"{key} {value:.3g}" for key, value in found.items()))
        for name, found in data.items()
    ], data


def engines(batch: int, options: argparse.Namespace) -> Found:
    """A step of each engine over plain SGD's, time and peak memory, on each model."""
    from benchmarks import engine
    from benchmarks.steps import installed

    here = ",".join(name for name in ENGINES if name in installed())
    common = ["--device", options.device, "--engines", here, "--batch", str(batch), "--limit", "60"]
    common += ["--repeats", "1", "--seconds", "8" if options.quick else "40"]
    rows, data, end = [], {}, time.monotonic() + 300
    for model in MODELS[:1] if options.quick else MODELS:
        if time.monotonic() > end:
            rows.append((f"{model}, {batch} rows", _NO_TIME))
            continue
        seen, measured = engine.measure_models(engine.parser().parse_args([*common, "--models", model]))
        data[model] = {"rows": [asdict(row) for row in seen], "measurements": measured}
        plain, *others = seen
        sgd = (
            f"{1e3 * plain.numbers.step_seconds:.3g} ms, {plain.numbers.peak_bytes / _MIB:.0f} MiB"
            if (plain.numbers)
            else f"{plain.status} ({plain.reason})"
        )
        told = "; ".join(map(_over_sgd, others))
        rows.append((f"{model}, {batch} rows", f"SGD {sgd}; time and peak over it: {told}"))
    return [*rows, *_left_out()], data


def _over_sgd(row: Any) -> str:
    numbers = row.numbers
    if numbers is None:
        return f"{row.engine} {row.status} ({row.reason})"
    peak = f"{numbers.peak_ratio:.2f}" if row.engine in WITH_MEMORY else "?"
    return f"{row.engine} {numbers.step_ratio:.2f} and {peak}"


def _left_out() -> list[tuple[str, str]]:
    """Engines that are missing here."""
    from benchmarks.steps import PACKAGES, installed

    missing = [f"{name} (no package {PACKAGES[name]})" for name in ENGINES if name not in installed()]
    return [("left out", "; ".join(missing))] if missing else []


def sharing(options: argparse.Namespace) -> Found:
    """Processes that take private steps at the same time, as a simulation's actors do on one card."""
    import torch

    from benchmarks.measure import Setting
    from benchmarks.processes import Ended, Remote, remote

    setting = Setting("tanh-cnn", "fl-dp-mixed", 64, options.device)
    rows, data = [], {}
    clients: list[Remote] = []
    with ExitStack() as stack, ThreadPoolExecutor(SHARED[-1]) as pool:
        for count in SHARED[:2] if options.quick else SHARED:
            new = [stack.enter_context(remote(setting, 120.0)) for _ in range(count - len(clients))]
            clients += new
            try:
                list(pool.map(Remote.first_step, new))
                end = time.perf_counter() + (2 if options.quick else 20)
                rate = sum(pool.map(_steps_a_second, clients, [end] * count))
            except Ended as ended:
                return [*rows, (f"{count} at once", f"{ended.status}: {ended.reason}")], data
            seen = {"steps_per_second": rate}
            words = f"{rate:.1f} steps a second in all, {rate / count:.1f} each"
            if options.device.startswith("cuda"):
                free, total = torch.cuda.mem_get_info(options.device)
                seen["used_bytes"] = total - free
                words += f"; {(total - free) / 2**30:.1f} GiB of the card in use"
            data[str(count)] = seen
            rows.append((f"{count} at once, tanh-cnn, 64 rows", words))
    return rows, data


def _steps_a_second(client: Any, end: float) -> float:
    seconds = [client.turn().seconds]
    while time.perf_counter() < end:
        seconds.append(client.turn().seconds)
    return 1 / statistics.median(seconds)


def simulation(options: argparse.Namespace) -> Found:
    """Whole rounds of `./run.sh --simulate`, so many actors on one card; made-up images, four rounds."""
    import numpy as np

    from benchmarks.simulation.contenders import Place, ours
    from benchmarks.simulation.outcomes import Case, run_all

    on_gpu = options.device.startswith("cuda")
    federation, shared = ("digits", SHARED[:1]) if options.quick else ("200-clients", SHARED)
    with TemporaryDirectory() as folder:
        settings: dict[str, Any] = {"device": options.device, "public-data": True}
        if not options.quick:
            file, random = Path(folder) / "made-up.npz", np.random.default_rng(0)
            images = {f"x_{k}": random.integers(0, 256, (n, 28, 28), np.uint8) for k, n in IMAGES.items()}
            labels = {f"y_{k}": random.integers(0, 10, n) for k, n in IMAGES.items()}
            np.savez(file, **images, **labels, classes=np.array(list("0123456789")))
            settings["data"] = f"npz:{file}"

        def case(actors: int) -> Case:
            command = ours(**settings, **({"clients-per-gpu": actors} if on_gpu else {}))
            place = Path(folder)
            name = f"{actors} at once" if on_gpu else "as many as there are cores"
            return Case(name, federation, lambda run: command(federation, Place(run, 4, place, None)))

        rows, data, end = [], {}, time.monotonic() + 480
        for actors in shared:
            if (left := end - time.monotonic()) < 30:
                rows.append((f"{federation}, {actors} at once", _NO_TIME))
                continue
            (outcome,) = run_all([case(actors)], 1, min(150.0, left))
            ended = outcome.ended and f"{outcome.ended.word}: {outcome.ended.reason}"
            seen = ended or f"{60 / outcome.round:.1f} rounds a minute"
            rows.append((f"{federation}, {outcome.case.contender}", seen))
            data[outcome.case.contender] = ended or outcome.round_seconds
    return rows, data
