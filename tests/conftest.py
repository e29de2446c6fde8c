"""What every test process does first."""

import signal

import pytest
import torch

torch.set_num_threads(1)  # the networks are tiny, and the test processes run side by side

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell without job control starts background jobs deaf to Ctrl-C, and so would be the
    # programs that the tests interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The flag that renews what the terminal is expected to show."""
    parser.addoption("--renew-golden", action="store_true", help="write tests/cli/golden anew")
