"""Row identity with pylance 14."""
from lance_row_cases import * # noqa: F401,F403
