"""pylance 7 and data files of version 2.0, both ways."""
from lance_v20_cases import *  # noqa: F401,F403
