"""One thread: the networks are tiny, and the test processes run side by side."""

import pytest
import torch

torch.set_num_threads(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The flag that renews what the terminal is expected to show."""
    parser.addoption("--renew-golden", action="store_true", help="write tests/cli/golden anew")
