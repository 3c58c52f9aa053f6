"""pylance 14 and our changes of a table, both ways."""
from lance_change_cases import *  # noqa: F401,F403
