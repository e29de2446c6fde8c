"""Packages that only some sources need."""

from __future__ import annotations

from functools import partial

from critinit._optional import optional as _optional
from critinit.data.errors import DataError

optional = partial(_optional, extra="data", error=DataError)
