"""Real data, and noise, to measure, tune and train on. Nothing here unpickles anything."""

from critinit.data._cifar10 import cache_directory
from critinit.data._dataset import Dataset, batch, load, normalize
from critinit.data._fetch import Progress, fetch_cifar10
from critinit.data._sources import NAMES
from critinit.data.errors import CorruptDataError, DataError, MissingDataError

__all__ = [
    "NAMES",
    "CorruptDataError",
    "DataError",
    "Dataset",
    "MissingDataError",
    "Progress",
    "batch",
    "cache_directory",
    "fetch_cifar10",
    "load",
    "normalize",
]
