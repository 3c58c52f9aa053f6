"""Row identity with pylance 7."""
from lance_row_cases import * # noqa: F401,F403
