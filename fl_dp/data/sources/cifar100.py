"""CIFAR100: 60,000 colour photographs of 100 kinds of things, 32x32."""

from fl_dp.data.cifar_files import load_cifar
from fl_dp.data.source import Source

SOURCE = Source(lambda location, split: load_cifar("CIFAR100", location.root, split), public=True)
