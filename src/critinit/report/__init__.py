"""One page, or one JSON document, about what was measured or tuned."""

from critinit.report._comparison import Comparison
from critinit.report._document import document, schema, to_json
from critinit.report._page import html
from critinit.report._run import Run
from critinit.report._section import Chart, Line, ReportError, Section

__all__ = [
    "Chart",
    "Comparison",
    "Line",
    "ReportError",
    "Run",
    "Section",
    "document",
    "html",
    "schema",
    "to_json",
]
