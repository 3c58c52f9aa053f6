"""Three writers of pylance 7 and three of ours."""
from lance_writers_cases import test_six_writers_of_one_table_lose_nothing, uri  # noqa: F401
