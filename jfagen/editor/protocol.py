"""The protocol as pygls speaks it, with an answer to every request that cannot be read."""

from __future__ import annotations

from typing import Any

from pygls.exceptions import JsonRpcException
from pygls.protocol import LanguageServerProtocol


class AnsweringProtocol(LanguageServerProtocol):
    """pygls writes a request with wrong parameters into its log only: the client would wait."""

    def structure_message(self, data: dict[str, Any]) -> object:
        """Return a message as its type; a request that is none is refused, and in the log."""
        try:
            return super().structure_message(data)
        except JsonRpcException as error:
            if "id" in data and "method" in data:
                refusal = type(error)(f"wrong parameters of {data['method']}")
                self._send_response(data["id"], error=refusal.to_response_error())
            raise
