"""The auditor: recomputes every promise from what was published and who was where, and trusts nothing of the engine.

It imports the policy, hierarchies and errors, and nothing else of core; import-linter keeps it so. Start with
`auditor.py`; `model/` lists the criteria of each model of values. One criterion, one file, one citation: `chain` (G6),
`cells` and `onetree` (G1), `counts` and `coins` for both models; `linking` and `exposure` (G2), `permanent/` (G3),
`guards` (G4), `composition` and `others` (G5), `carrying`, `values`, `members` and `cases` for redrawn tables; those of
lasting ones are in `criteria/lasting/`. `truth` folds events, and `attack/` shows what would have happened otherwise.
"""

from shoal.core.audit.auditor import Auditor
from shoal.core.audit.reading.text import write_report
from shoal.core.audit.reading.together import Stored
from shoal.core.audit.reading.truth import Asked, Truth
from shoal.core.audit.report.report import Report

__all__ = ["Asked", "Auditor", "Report", "Stored", "Truth", "write_report"]
