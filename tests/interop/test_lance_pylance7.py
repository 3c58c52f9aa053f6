"""pylance 7 and our tables, both ways."""
from lance_cases import *  # noqa: F401,F403
