"""Published evaluations, recomputed with the cost model: `ringroad reproduce swing`.

A TOML file for each paper holds its figures and statements; the modules here recompute them. The result of every figure
is a table, the paper's statements beside our values, and a picture.
"""

from ringroad.reproduce.claims import Verdict
from ringroad.reproduce.definition import PAPERS, Definition
from ringroad.reproduce.evaluation import Panel
from ringroad.reproduce.report import Report, reproduce
from ringroad.reproduce.tables import TableReport

__all__ = ["PAPERS", "Definition", "Panel", "Report", "TableReport", "Verdict", "reproduce"]
