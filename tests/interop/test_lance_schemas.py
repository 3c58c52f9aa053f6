"""Tables of any schema between pylance 14 and us."""
from lance_schemas_cases import *  # noqa: F401,F403
