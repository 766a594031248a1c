"""CIFAR10: 60,000 colour photographs of 10 kinds of things, 32x32."""

from fl_dp.data.cifar_files import load_cifar
from fl_dp.data.source import Source

SOURCE = Source(lambda location, split: load_cifar("CIFAR10", location.root, split), public=True)
