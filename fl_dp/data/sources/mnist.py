"""MNIST: 70,000 handwritten digits, grey, 28x28."""

from fl_dp.data.mnist_files import load_mnist
from fl_dp.data.source import Source

SOURCE = Source(lambda location, split: load_mnist("MNIST", location.root, split), public=True)
