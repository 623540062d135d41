from aggserver.cel.errors import Errors
from aggserver.cel.lexer import Token
def explain(source: str, read: list[Token], errors: Errors) -> None:
    errors.add(0, "syntax")
