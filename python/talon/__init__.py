"""Talon: language models that answer faster without changing a token.

>>> import talon
>>> model = talon.Model("smollm2")
>>> for token in model.generate([talon.chat.user("Why does it rain?")], stream=True):
...     print(token.text, end="")
"""
from . import chat
from ._talon import version as _version
from .answers import Answer, Round, Stream, Token
from .chat import Chat
from .errors import ArgumentError, CancelledError, QueueFullError, TalonError, TooLongError
from .model import Model

__version__ = _version()
__all__ = ["Answer", "ArgumentError", "CancelledError", "Chat", "Model", "QueueFullError", "Round", "Stream", "TalonError", "Token",
           "TooLongError", "chat", "__version__"]
