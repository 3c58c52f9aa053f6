"""Histories of pylance 7 and ours."""
from lance_history_cases import *  # noqa: F401,F403
