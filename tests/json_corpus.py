"""Bytes that are, are not, or may be JSON, each with a name that says what is odd about it.

`GOOD` is JSON by RFC 8259 and must be read; `BAD` is not and must be refused; of `EITHER` the RFC
leaves it to the reader (numbers too large for it, halves of surrogate pairs, depth, a byte order
mark), which has to say one or the other and nothing worse.
"""

DEEP = 100_000
_LONG = 60_000

GOOD: dict[str, bytes] = {
    "array_empty": b"[]",
    "array_spaces": b" [ 1 , 2\t,\r\n3 ] ",
    "array_nested": b"[[[[[]]]]]",
    "object_empty": b"{}",
    "object_empty_key": b'{"":0}',
    "object_escaped_key": rb'{"a\u0000b":1}',
    "object_long_key": b'{"' + b"k" * _LONG + b'":1}',
    "number_zero": b"0",
    "number_minus_zero": b"-0",
    "number_fraction": b"-1.5",
    "number_exponent": b"1E+2",
    "number_small": b"1e-9",
    "number_int64_max": b"9223372036854775807",
    "string_empty": b'""',
    "string_escapes": rb'"\"\\\/\b\f\n\r\t\u20ac"',
    "string_pair": rb'"\ud83d\ude00"',
    "string_utf8": '"grüße, 你好 😀"'.encode(),
    "string_nul_escaped": rb'"\u0000"',
    "string_delete": b'"\x7f"',
    "string_line_separator": '"\u2028"'.encode(),
    "string_noncharacter": '"\uffff"'.encode(),
    "string_long": b'"' + b"x" * _LONG + b'"',
    "literals": b"[true,false,null]",
}
BAD: dict[str, bytes] = {
    "empty": b"",
    "only_space": b" \n",
    "only_nul": b"\x00",
    "not_text": b"\xff\xfe\xfa",
    "utf16": '{"a": 1}'.encode("utf-16-le"),
    "utf32": '{"a": 1}'.encode("utf-32-be"),
    "invalid_utf8_in_string": b'"\xe9"',
    "invalid_utf8_overlong": b'"\xc0\xaf"',
    "invalid_utf8_surrogate": b'"\xed\xa0\x80"',
    "invalid_utf8_cut": b'"\xe2\x82"',
    "invalid_utf8_outside": b"[1]\xe9",
    "array_open": b"[1",
    "array_closed_twice": b"[1]]",
    "array_comma_at_end": b"[1,]",
    "array_two_commas": b"[1,,2]",
    "array_no_comma": b"[1 2]",
    "array_colon": b'["a":1]',
    "array_curly": b"[1}",
    "arrays_open": b"[" * 1_000,
    "objects_open": b'{"a":' * 1_000,
    "object_open": b'{"a":1',
    "object_no_value": b'{"a"}',
    "object_no_colon": b'{"a" 1}',
    "object_comma_at_end": b'{"a":1,}',
    "object_key_bare": b"{a:1}",
    "object_key_number": b"{1:1}",
    "object_key_single_quotes": b"{'a':1}",
    "object_comment": b'{"a":1/* no */}',
    "object_trailing": b'{"a":1}x',
    "two_values": b"{}{}",
    "number_plus": b"+1",
    "number_leading_zero": b"012",
    "number_bare_fraction": b".5",
    "number_bare_point": b"1.",
    "number_bare_exponent": b"1e",
    "number_hex": b"0x1F",
    "number_underscore": b"1_000",
    "number_minus": b"-",
    "number_nan": b"NaN",
    "number_infinity": b"Infinity",
    "number_minus_infinity": b"[-Infinity]",
    "number_full_width": "\uff11".encode(),
    "literal_capital": b"True",
    "literal_cut": b"nul",
    "string_open": b'"abc',
    "string_control": b'"a\x01b"',
    "string_newline": b'"a\nb"',
    "string_nul": b'"a\x00b"',
    "string_escape_unknown": rb'"\x41"',
    "string_escape_cut": rb'"\u12"',
    "string_escape_letters": rb'"\uZZZZ"',
    "string_escape_at_end": b'"\\',
    "string_single_quotes": b"'a'",
    "space_no_break": "\u00a0[]".encode(),
    "space_form_feed": b"\x0c[]",
    "byte_order_mark_alone": b"\xef\xbb\xbf",
    "deep_and_open": b"[" * DEEP,
    "deep_objects_and_open": b'{"a":' * DEEP,
}
EITHER: dict[str, bytes] = {
    "byte_order_mark": b"\xef\xbb\xbf{}",
    "deep": b"[" * DEEP + b"]" * DEEP,
    "deep_objects": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "deep_a_little": b"[" * 500 + b"]" * 500,
    "number_huge_exponent": b"1e999999",
    "number_huge_minus": b"-1e999999",
    "number_tiny": b"1e-999999",
    "number_long": b"1" + b"0" * 5_000,
    "number_long_fraction": b"0." + b"3" * 5_000,
    "number_beyond_int64": b"9223372036854775808",
    "string_half_pair_high": rb'"\ud800"',
    "string_half_pair_low": rb'"\udc00"',
    "string_pair_reversed": rb'"\udc00\ud800"',
    "key_half_pair": rb'{"\ud800":1}',
    "object_key_twice": b'{"a":1,"a":2}',
}
ALL: dict[str, bytes] = {
    **{f"y_{name}": content for name, content in GOOD.items()},
    **{f"n_{name}": content for name, content in BAD.items()},
    **{f"i_{name}": content for name, content in EITHER.items()},
}


def in_a_call(case: bytes, *, meta: bytes = b"{}") -> bytes:
    """Return a `tools/call` whose argument `value` is the case, as it stands."""
    return (
        b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"files__read",'
        b'"_meta":%b,"arguments":{"value":%b}}}' % (meta, case)
    )
