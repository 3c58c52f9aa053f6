"""Tables of any schema between pylance 7 and us."""
from lance_schemas_cases import *  # noqa: F401,F403
