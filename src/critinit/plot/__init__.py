"""Pictures of profiles, tunings and phase diagrams, on Matplotlib axes.

The same thing looks the same in all of them, and can be told from others in grey, too: by its
marker and its line.
"""

from critinit.plot._history import history
from critinit.plot._phase import phase
from critinit.plot._profiles import comparison, profile
from critinit.plot._values import PlotError, Quantity

__all__ = ["PlotError", "Quantity", "comparison", "history", "phase", "profile"]
