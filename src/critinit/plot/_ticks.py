"""Where an axis carries numbers, and how they are written."""

from __future__ import annotations

import math

_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_FEW = 6


def log_ticks(low: float, high: float) -> list[float]:
    """Decimal logarithms to mark between ``low`` and ``high``: 1, 2, 5, or powers of ten.

    >>> [tick_label(t) for t in log_ticks(-0.4, 0.4)]
    ['0.5', '1', '2']
    >>> [tick_label(t) for t in log_ticks(-80.0, 1.0)]
    ['10⁻⁸⁰', '10⁻⁶⁰', '10⁻⁴⁰', '10⁻²⁰', '1']
    """
    if high - low < 1.9:
        decades = range(math.floor(low), math.ceil(high) + 1)
        marks = [d + math.log10(m) for d in decades for m in (1, 2, 5)]
    else:
        rough = (high - low) / _FEW
        step = next(s * 10**e for e in range(9) for s in (1, 2, 5) if s * 10**e >= rough)
        first = math.ceil(low / step)
        marks = [float(step * i) for i in range(first, math.floor(high / step) + 1)]
    return [m for m in marks if low <= m <= high]


def tick_label(log: float) -> str:
    """``10^log``, written out where that is short.

    >>> tick_label(2.0), tick_label(-12.0)
    ('100', '10⁻¹²')
    """
    if -3.5 < log < 3.5:
        return f"{10**log:.4g}"
    exponent = math.floor(log + 1e-9)
    digit = round(10 ** (log - exponent))
    factor = "" if digit == 1 else f"{digit}·"
    return factor + "10" + str(exponent).translate(_SUPERSCRIPTS)


def linear_ticks(low: float, high: float, whole: bool = False) -> list[float]:
    """About five round numbers between ``low`` and ``high``.

    >>> linear_ticks(0, 9, whole=True)
    [0.0, 2.0, 4.0, 6.0, 8.0]
    """
    rough = (high - low) / 5
    power = 10 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)
    if whole:
        step = max(1, math.ceil(step))
    first = math.ceil(low / step - 1e-9)
    return [step * i * 1.0 for i in range(first, math.floor(high / step + 1e-9) + 1)]


def written_log(log: float) -> str:
    """``10^log`` with three digits, also where a float cannot hold it.

    >>> written_log(-0.30103), written_log(3.15), written_log(-400.0), written_log(-math.inf)
    ('0.5', '1410', '1.00·10⁻⁴⁰⁰', '0')
    """
    if math.isnan(log):
        return "–"
    if math.isinf(log):
        return "0" if log < 0 else "∞"
    if -3.5 < log < 5:
        text = f"{10**log:.3g}"
        return f"{float(text):.0f}" if log > 1 and "e" in text else text
    exponent = math.floor(log + 0.002)  # 9.996 would be written as 10.00
    return f"{10 ** (log - exponent):.2f}·{tick_label(float(exponent))}"
