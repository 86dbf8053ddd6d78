"""HTTP/1.1 as the listeners parse it: in C, with the care for headers that the parser lacks."""

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_BYTES_MAX = 64 * 1024


class BoundedHttp(HttpToolsProtocol):
    """Gives up a request whose headers have no end; by itself the parser collects them all."""

    _is_in_head = False
    _head_bytes = 0

    def on_message_begin(self) -> None:
        """Begin to count."""
        self._is_in_head, self._head_bytes = True, 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, without the white space around its value, which is no part of it."""
        super().on_header(name, value.strip(b" \t"))

    def on_headers_complete(self) -> None:
        """Stop counting."""
        self._is_in_head = False
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """Take what came, up to the bound."""
        super().data_received(data)
        if self._is_in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX:
                self.send_400_response(f"The headers are larger than {HEAD_BYTES_MAX} bytes.")
