"""Published evaluations, recomputed with the cost model: `ringroad reproduce swing`.

What a paper shows and states is data, a TOML file for each paper; what is computed of it is here. Every figure becomes
a table, the paper's statements beside ours, and a picture.
"""

from ringroad.reproduce.claims import Verdict
from ringroad.reproduce.definition import PAPERS, Definition
from ringroad.reproduce.evaluation import Panel
from ringroad.reproduce.report import Report, reproduce
from ringroad.reproduce.tables import TableReport

__all__ = ["PAPERS", "Definition", "Panel", "Report", "TableReport", "Verdict", "reproduce"]
