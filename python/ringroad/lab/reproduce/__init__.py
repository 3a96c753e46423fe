"""Published evaluations, recomputed with the cost model: `ringroad lab reproduce swing`.

A TOML file for each paper holds its figures and statements; the modules here recompute them. The result of every figure
is a table, the paper's statements beside our values, and a picture.
"""

from ringroad.lab.reproduce.claims import Verdict
from ringroad.lab.reproduce.definition import PAPERS, Definition
from ringroad.lab.reproduce.evaluation import Panel
from ringroad.lab.reproduce.plot import picture
from ringroad.lab.reproduce.report import Report, reproduce
from ringroad.lab.reproduce.tables import TableReport

__all__ = ["PAPERS", "Definition", "Panel", "Report", "TableReport", "Verdict", "picture", "reproduce"]
__dir__ = __all__.copy
