"""pylance 1.0.4 and our tables, both ways."""
from lance_cases import *  # noqa: F401,F403
