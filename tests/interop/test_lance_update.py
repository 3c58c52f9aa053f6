"""pylance 14: rows and columns of a table that change, both ways."""
from lance_update_cases import *  # noqa: F401,F403
