"""Three writers of pylance 14 and three of ours; ours killed."""
from lance_writers_cases import *  # noqa: F401,F403
