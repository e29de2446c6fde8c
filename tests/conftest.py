"""One thread: the networks are tiny, and the test processes run side by side."""

import torch

torch.set_num_threads(1)
