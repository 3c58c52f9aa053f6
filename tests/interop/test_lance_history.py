"""Histories of pylance 14 and ours."""
from lance_history_cases import *  # noqa: F401,F403
