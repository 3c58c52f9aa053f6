"""pylance 7's indices and ours, both ways."""
from lance_index_cases import *  # noqa: F401,F403
